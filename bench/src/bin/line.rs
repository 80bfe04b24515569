//! A line between two network interfaces, as slow and as long as it is told:
//! what `tc netem` does, for kernels that have no netem.
//!
//! Two tun interfaces are made; whatever goes into one comes out of the
//! other. Each direction sends packets one after another at the line's rate,
//! holds each for the way's time, and drops what does not fit into its queue.
//! The TCP on both ends is the kernel's own. The interfaces live as long as
//! the program: it runs until it is killed, and prints one line when they are
//! there.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use rustix::ioctl::{Updater, ioctl, opcode};

/// Join two new tun interfaces by a line of a rate and a length.
#[derive(Debug, Parser)]
struct Arguments {
    /// The name of the one interface
    one: String,
    /// The name of the other
    other: String,
    /// Megabits that a direction carries in a second
    #[arg(long)]
    megabits: u32,
    /// Milliseconds from one end to the other
    #[arg(long)]
    milliseconds: u64,
    /// Packets that a direction holds at most, those under way included
    #[arg(long, default_value_t = 1000)]
    queue: usize,
}

/// A packet and when it reaches the other end.
struct Packet {
    due: Instant,
    bytes: Vec<u8>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if arguments.megabits == 0 {
        bail!("a line of no megabits carries nothing");
    }
    let one = Arc::new(tun(&arguments.one)?);
    let other = Arc::new(tun(&arguments.other)?);
    println!("up");
    let directions = [(&one, &other), (&other, &one)];
    let threads: Vec<_> = directions
        .into_iter()
        .flat_map(|(from, to)| {
            let (sender, receiver) = sync_channel(arguments.queue);
            let (from, to) = (Arc::clone(from), Arc::clone(to));
            let rate = f64::from(arguments.megabits) * 1e6 / 8.0;
            let way = Duration::from_millis(arguments.milliseconds);
            [
                thread::spawn(move || take(&from, &sender, rate, way)),
                thread::spawn(move || give(&to, &receiver)),
            ]
        })
        .collect();
    for thread in threads {
        thread
            .join()
            .unwrap_or_else(|_| bail!("a direction's thread died"))?;
    }
    Ok(())
}

/// Takes packets in and says when each is due.
fn take(from: &File, queue: &SyncSender<Packet>, rate: f64, way: Duration) -> anyhow::Result<()> {
    // The longest packet that an interface carries.
    let mut buffer = vec![0; 1 << 16];
    let mut free = Instant::now();
    loop {
        let length = {
            let mut from = from;
            from.read(&mut buffer).context("cannot take a packet")?
        };
        let sent = free.max(Instant::now()) + Duration::from_secs_f64(length as f64 / rate);
        let packet = Packet {
            due: sent + way,
            bytes: buffer.get(..length).unwrap_or_default().to_vec(),
        };
        // A packet that finds the queue full is lost, and costs no time.
        if queue.try_send(packet).is_ok() {
            free = sent;
        }
    }
}

/// Gives packets out when they are due.
#[allow(clippy::disallowed_methods)] // the time on the way is the condition
fn give(to: &File, queue: &Receiver<Packet>) -> anyhow::Result<()> {
    while let Ok(packet) = queue.recv() {
        if let Some(early) = packet.due.checked_duration_since(Instant::now()) {
            thread::sleep(early);
        }
        let mut to = to;
        // An interface that is not up yet refuses packets: they are lost.
        let _ = to.write(&packet.bytes);
    }
    Ok(())
}

/// The kernel's `struct ifreq`, as far as `TUNSETIFF` reads it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// Packets of IP.
const IFF_TUN: u16 = 0x0001;
/// Without a header before each.
const IFF_NO_PI: u16 = 0x1000;

/// A new tun interface, which lives as long as the file is open.
fn tun(name: &str) -> anyhow::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun")
        .context("cannot open /dev/net/tun")?;
    let mut request = InterfaceRequest {
        name: [0; 16],
        flags: IFF_TUN | IFF_NO_PI,
        rest: [0; 22],
    };
    // The last byte stays the name's end.
    match request.name.get_mut(..name.len()) {
        Some(place) if name.len() < 16 => place.copy_from_slice(name.as_bytes()),
        _ => bail!("{name} is too long for an interface's name"),
    }
    const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<u32>(b'T', 202);
    // SAFETY: `TUNSETIFF` reads and writes one `struct ifreq`, of which
    // `InterfaceRequest` has the size and the fields.
    unsafe { ioctl(&file, Updater::<TUNSETIFF, _>::new(&mut request)) }
        .with_context(|| format!("cannot make the interface {name}"))?;
    Ok(file)
}
