//! Tells when a node's devices should be looked at anew.
//!
//! The kernel announces what happens to devices, and udev announces that its
//! database says so too; changes of the mount table and of swaps are polled
//! for, and writers are noticed where no udev does that. Nothing is concluded from what an event says: each only asks for a
//! look, so that a lost event costs nothing once the next look is made. Events
//! that come together are one change.

mod event;
mod gathering;
mod writers;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with, sockopt,
};

use self::event::Event;
use self::gathering::{Gathering, Udev};
use self::writers::Writers;
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
    /// Somebody has written to a device.
    pub written: bool,
    /// Somebody rang.
    pub asked: bool,
}

/// Waits for changes of this node's devices.
pub struct Watch {
    tree: Tree,
    /// The kernel's and udev's events, where they can be had.
    events: Option<OwnedFd>,
    tables: Vec<File>,
    /// Where no udev minds them.
    writers: Option<Writers>,
    bell: Arc<OwnedFd>,
    gathering: Gathering,
    buffer: Vec<u8>,
}

/// Asks for a look, from any thread.
#[derive(Debug, Clone)]
pub struct Bell(Arc<OwnedFd>);

impl Bell {
    /// Wakes whoever waits for a change.
    pub fn ring(&self) {
        // It fails only where it was rung beyond all counting already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Watch {
    /// Begins to watch; what happens from now on is told by [`Watch::wait`].
    ///
    /// # Errors
    /// Where the kernel does not let events be listened to.
    pub fn begin(tree: &Tree) -> io::Result<Self> {
        let mut watch = Self::without_events(tree)?;
        watch.events = Some(listen()?);
        Ok(watch)
    }

    /// Begins to watch where events are not to be had: mounts, writers and
    /// the bell are changes all the same; devices that come and go are left to
    /// whoever looks now and then.
    ///
    /// # Errors
    /// Where the kernel has no more descriptors to give.
    pub fn without_events(tree: &Tree) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self {
            tree: tree.clone(),
            events: None,
            // A table that cannot be read is a reason for every device already.
            tables: ["proc/1/mountinfo", "proc/swaps"]
                .iter()
                .filter_map(|table| File::open(tree.file(table)).ok())
                .collect(),
            writers: None,
            bell: Arc::new(eventfd(0, flags)?),
            gathering: Gathering::default(),
            buffer: vec![0; LONGEST_EVENT],
        })
    }

    /// Goes on without events, where waiting for them failed.
    pub fn forget_events(&mut self) {
        self.events = None;
    }

    /// Whether events of devices come.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.events.is_some()
    }

    /// What asks for a look.
    #[must_use]
    pub fn bell(&self) -> Bell {
        Bell(Arc::clone(&self.bell))
    }

    /// The devices that there are, by the kernel's names of them: writers of
    /// these are minded where udev does not run. Whether there are new ones
    /// among them, of whose last writers nothing is known.
    pub fn mind<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> bool {
        if self.udev() != Udev::Absent {
            self.writers = None;
            return false;
        }
        if self.writers.is_none() {
            self.writers = Writers::new().ok();
        }
        self.writers
            .as_mut()
            .is_some_and(|writers| writers.mind(names.map(|name| self.tree.device(name))))
    }

    /// What udev shows of itself: a socket while it runs, and a mark while it
    /// works on events.
    fn udev(&self) -> Udev {
        // The socket may be a link, which leads nowhere below another root.
        let shows = |name: &str| self.tree.file(name).symlink_metadata().is_ok();
        if !shows("run/udev/control") {
            Udev::Absent
        } else if shows("run/udev/queue") {
            Udev::Busy
        } else {
            Udev::Idle
        }
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
            let until = self.gathering.wakes_at(now).map_or(end, |due| due.min(end));
            self.gather(until.saturating_duration_since(now))?;
        }
    }

    /// Takes what comes within `longest`.
    fn gather(&mut self, longest: Duration) -> io::Result<()> {
        let [events, usage, written, asked] = self.poll(longest)?;
        let (now, udev) = (Instant::now(), self.udev());
        self.gathering.udev(now, udev);
        if usage {
            self.gathering.usage(now);
        }
        if written && self.writers.as_mut().is_some_and(Writers::take) {
            self.gathering.written(now);
        }
        if asked {
            // It counts the rings, and reading them makes it none.
            let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
            self.gathering.asked(now);
        }
        if events {
            self.take_events()?;
        }
        Ok(())
    }

    /// Which have something: events, tables, writers, the bell.
    fn poll(&self, longest: Duration) -> io::Result<[bool; 4]> {
        let changed = PollFlags::PRI | PollFlags::ERR;
        let mut fds = vec![(3, PollFd::new(&*self.bell, PollFlags::IN))];
        fds.extend(
            self.events
                .iter()
                .map(|fd| (0, PollFd::new(fd, PollFlags::IN))),
        );
        let tables = self.tables.iter();
        fds.extend(tables.map(|fd| (1, PollFd::from_borrowed_fd(fd.as_fd(), changed))));
        let writers = self.writers.iter();
        fds.extend(writers.map(|fd| (2, PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN))));
        let (which, mut fds): (Vec<usize>, Vec<PollFd<'_>>) = fds.into_iter().unzip();
        let longest = Timespec::try_from(longest).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        match poll(&mut fds, Some(&longest)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut has = [false; 4];
        for (which, fd) in which.into_iter().zip(&fds) {
            // A table can always be read; what counts is that it has changed.
            let wanted = if which == 1 {
                changed
            } else {
                PollFlags::all()
            };
            has[which] |= fd.revents().intersects(wanted);
        }
        Ok(has)
    }

    fn take_events(&mut self) -> io::Result<()> {
        let Some(events) = &self.events else {
            return Ok(());
        };
        loop {
            match recv(events, self.buffer.as_mut_slice(), RecvFlags::empty()) {
                Ok((length, _)) => {
                    let message = self.buffer.get(..length).unwrap_or_default();
                    if let Some(event) = Event::read(message) {
                        self.gathering.event(Instant::now(), event);
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

/// A socket on which the kernel's events come, and udev's where it works in
/// the same network namespace.
fn listen() -> io::Result<OwnedFd> {
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
    Ok(events)
}
