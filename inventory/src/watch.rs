//! Tells when a node's devices should be looked at anew.
//!
//! The kernel announces what happens to devices, and udev announces that its
//! database says so too; changes of the mount table and of swaps are polled
//! for. Nothing is concluded from what an event says: each only asks for a
//! look, so that a lost event costs nothing once the next look is made. Events
//! that come together are one change.

mod event;
mod gathering;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with, sockopt,
};

use self::event::Event;
use self::gathering::Gathering;
use crate::walk::Tree;

/// The kernel's own events, and those that udev repeats when it is done.
const KERNEL: u32 = 1;
const UDEV: u32 = 2;

/// Room for a burst of some ten thousand events.
const BUFFER: usize = 8 << 20;

/// The kernel sends no longer events; udev's may be longer and are cut, which
/// leaves what is read of them.
const LONGEST_EVENT: usize = 8 << 10;

/// Why a look is due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// Events of block devices.
    pub events: usize,
    /// Events of which the kernel had no room for more: some are lost.
    pub lost: bool,
    /// What is mounted or swapped to has changed.
    pub usage: bool,
}

/// Waits for changes of this node's devices.
pub struct Watch {
    events: OwnedFd,
    tables: Vec<File>,
    /// udev's own socket, which is there while it runs.
    udev: PathBuf,
    gathering: Gathering,
    buffer: Vec<u8>,
}

impl Watch {
    /// Begins to watch; what happens from now on is told by [`Watch::wait`].
    ///
    /// # Errors
    /// Where the kernel does not let events be listened to.
    pub fn begin(tree: &Tree) -> io::Result<Self> {
        let events = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            Some(KOBJECT_UEVENT),
        )?;
        // More than anybody may ask for needs a capability; less will do.
        if sockopt::set_socket_recv_buffer_size_force(&events, BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&events, BUFFER)?;
        }
        bind(&events, &SocketAddrNetlink::new(0, KERNEL | UDEV))?;
        Ok(Self {
            events,
            // A table that cannot be read is a reason for every device already.
            tables: ["proc/1/mountinfo", "proc/swaps"]
                .iter()
                .filter_map(|table| File::open(tree.file(table)).ok())
                .collect(),
            udev: tree.file("run/udev/control"),
            gathering: Gathering::default(),
            buffer: vec![0; LONGEST_EVENT],
        })
    }

    /// The next change, once what belongs to it has come; `None` when `limit`
    /// has passed without one.
    ///
    /// # Errors
    /// Where the kernel takes the events' socket away.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<Change>> {
        let end = Instant::now() + limit;
        loop {
            let now = Instant::now();
            if let Some(change) = self.gathering.due(now) {
                return Ok(Some(change));
            }
            if now >= end {
                return Ok(None);
            }
            let until = self.gathering.due_at().map_or(end, |due| due.min(end));
            self.gather(until.saturating_duration_since(now))?;
        }
    }

    /// Takes what comes within `longest`.
    fn gather(&mut self, longest: Duration) -> io::Result<()> {
        let changed = PollFlags::PRI | PollFlags::ERR;
        let mut fds = vec![PollFd::new(&self.events, PollFlags::IN)];
        fds.extend(
            self.tables
                .iter()
                .map(|table| PollFd::from_borrowed_fd(table.as_fd(), changed)),
        );
        let longest = Timespec::try_from(longest).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        match poll(&mut fds, Some(&longest)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let events = fds.first().is_some_and(|fd| !fd.revents().is_empty());
        let usage = fds
            .iter()
            .skip(1)
            .any(|fd| fd.revents().intersects(changed));
        if usage {
            self.gathering.usage(Instant::now());
        }
        if events {
            self.take_events()?;
        }
        Ok(())
    }

    fn take_events(&mut self) -> io::Result<()> {
        let udev = self.udev.exists();
        loop {
            match recv(&self.events, self.buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((length, _)) => {
                    let message = self.buffer.get(..length).unwrap_or_default();
                    if let Some(event) = Event::read(message) {
                        self.gathering.event(Instant::now(), event, udev);
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => self.gathering.lost(Instant::now()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
