//! The order of a cleaning.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::{Duration, Instant};

use hypercloud_inventory::cleaning::{Meant, Refusal, find, may_be_cleaned};
use hypercloud_inventory::snapshot::{Number, Seen, Snapshot};
use hypercloud_inventory::{Leftover, Leftovers, WalkError};
use tokio_util::sync::CancellationToken;

use super::device::{Alone, OpenError};
use super::{Cleaned, openers, plan};
use crate::devices::eyes::{Eyes, Sight};

/// Removing one signature may show another; more of them than this nothing
/// has.
const ROUNDS: usize = 16;

/// How long a device may be busy with somebody who only looks at it.
const BUSY_WITHIN: Duration = Duration::from_secs(2);

/// Why a device was not cleaned.
#[derive(Debug, thiserror::Error)]
pub(super) enum CleanError {
    #[error("the node cannot tell what is on a device: its agent has no libblkid ({0})")]
    Blind(String),
    #[error("the devices of a record are not cleaned")]
    Recorded,
    #[error("the devices cannot be looked at")]
    Walk(#[from] WalkError),
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("{path} is used by somebody since it was looked at: fuser -v {path} names him")]
    Busy { path: String },
    #[error("{path} is open for writing: stop {who}")]
    Written { path: String, who: String },
    #[error("{path} has changed since it was looked at: look at the node's devices again")]
    Changed {
        path: String,
        #[source]
        source: OpenError,
    },
    #[error("{path}: {what}")]
    Failed {
        path: String,
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{path} cannot be read for what is on it: {why}")]
    Unreadable { path: String, why: String },
    #[error(
        "{path} still has {what} after it was overwritten: it does not keep what is written, or somebody else writes to it"
    )]
    Remains { path: String, what: String },
    #[error("that it begins cannot be written down: look at the disk of the node's system")]
    Ledger(#[source] io::Error),
    #[error("the agent ends")]
    Interrupted,
}

impl CleanError {
    /// One CamelCase word; stable.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Blind(_) => "SignaturesUnknown",
            Self::Recorded => "DeviceNotThere",
            Self::Refused(refusal) => refusal.code(),
            Self::Busy { .. } | Self::Written { .. } => "InUse",
            Self::Changed { .. } => "DeviceChanged",
            Self::Walk(_) | Self::Failed { .. } | Self::Ledger(_) => "CleaningFailed",
            Self::Unreadable { .. } => "Unreadable",
            Self::Remains { .. } => "LeftoversRemain",
            Self::Interrupted => "CleaningInterrupted",
        }
    }

    /// Whether the same may succeed later with nothing changed. What speaks
    /// against a device is none of it: nobody expects that it is cleaned on
    /// the day when that ends.
    pub(super) fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Walk(_) | Self::Failed { .. } | Self::Ledger(_) | Self::Interrupted
        )
    }
}

/// Everything up to the first byte that is written.
pub(super) fn prepare<'a>(
    eyes: &Eyes,
    meant: &Meant,
    stop: &'a CancellationToken,
) -> Result<Cleaning<'a>, CleanError> {
    if !eyes.tree().is_live() {
        return Err(CleanError::Recorded);
    }
    if stop.is_cancelled() {
        return Err(CleanError::Interrupted);
    }
    let leftovers = Leftovers::load().map_err(CleanError::Blind)?;
    let target = decided(eyes, meant)?;
    let path = eyes.tree().device(&target.seen.name);
    let alone = Alone::open(&path, &target.seen).map_err(|source| target.unopened(source))?;
    if target.seen.disk_sequence.is_none() {
        // The number cannot be another device's any more, but it may have
        // become so since the look.
        let again = eyes.turn().look()?;
        if find(&again.inventory, meant)?.name != target.seen.name {
            let source = OpenError::Another("it is what another was".into());
            return Err(target.unopened(source));
        }
    }
    let own = alone.file.as_raw_fd();
    let who = openers::writers(eyes.tree().processes(), target.numbers.clone(), own);
    let who = who.map_err(target.failed("who else has it open cannot be seen"))?;
    if !who.is_empty() {
        return Err(CleanError::Written {
            path: target.path,
            who: who.join(", "),
        });
    }
    Ok(Cleaning {
        alone,
        target,
        leftovers,
        stop,
    })
}

/// Looks afresh, and decides. Who only looks at a device has it for a moment,
/// so that it is busy is seen more than once before it counts.
fn decided(eyes: &Eyes, meant: &Meant) -> Result<Target, CleanError> {
    let end = Instant::now() + BUSY_WITHIN;
    loop {
        let Sight {
            snapshot,
            inventory,
        } = eyes.turn().look()?;
        let device = find(&inventory, meant)?;
        match may_be_cleaned(&inventory, device) {
            Ok(()) => {
                let target = Target::of(&snapshot, &device.name);
                return Ok(target.ok_or_else(|| Refusal::NotThere {
                    what: device.path.clone(),
                })?);
            }
            Err(refusal) if refusal.is_of_a_moment() && Instant::now() < end => {
                thread::park_timeout(Duration::from_millis(100));
            }
            Err(refusal) => return Err(refusal.into()),
        }
    }
}

/// What is known of the device.
struct Target {
    path: String,
    size: u64,
    seen: Seen,
    /// The numbers of its partitions on it, and their places.
    partitions: Vec<(u32, Range<u64>)>,
    /// The kernel's numbers of it, its partitions, and what it is part or made
    /// of.
    numbers: BTreeSet<Number>,
}

impl Target {
    fn of(snapshot: &Snapshot, name: &str) -> Option<Self> {
        let seen = snapshot.devices.iter().find(|seen| seen.name == name)?;
        let of_it = |part: &&Seen| part.disk.as_deref() == Some(name);
        let parts: Vec<&Seen> = snapshot.devices.iter().filter(of_it).collect();
        let places = parts.iter().filter_map(|part| {
            let start = part.start?;
            Some((part.partition?, start..start.saturating_add(part.size?)))
        });
        let mut numbers: BTreeSet<Number> = parts.iter().filter_map(|part| part.number).collect();
        let mut open = vec![seen];
        while let Some(below) = open.pop() {
            if below.number.is_none_or(|number| !numbers.insert(number)) {
                continue;
            }
            let is_below = |other: &&Seen| {
                let slaves = below.slaves.as_ref();
                below.disk.as_ref() == Some(&other.name)
                    || slaves.is_some_and(|slaves| slaves.contains(&other.name))
            };
            open.extend(snapshot.devices.iter().filter(is_below));
        }
        Some(Self {
            path: format!("/dev/{name}"),
            size: seen.size?,
            seen: seen.clone(),
            partitions: places.collect(),
            numbers,
        })
    }

    fn unopened(&self, source: OpenError) -> CleanError {
        let path = self.path.clone();
        match source {
            OpenError::Busy => CleanError::Busy { path },
            OpenError::Another(_) => CleanError::Changed { path, source },
            OpenError::Failed(source) => CleanError::Failed {
                path,
                what: "it cannot be opened for writing",
                source,
            },
        }
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(io::Error) -> CleanError {
        let path = self.path.clone();
        move |source| CleanError::Failed { path, what, source }
    }
}

/// A device that is open alone, and is to be cleaned.
pub(super) struct Cleaning<'a> {
    alone: Alone,
    target: Target,
    leftovers: Leftovers,
    stop: &'a CancellationToken,
}

impl Cleaning<'_> {
    /// Says in the log what is about to happen.
    pub(super) fn announce(&self, reference: &str) {
        let Target {
            path, size, seen, ..
        } = &self.target;
        tracing::warn!(
            device = path,
            reference,
            size,
            model = seen.model,
            serial = seen.serial,
            wwn = seen.wwn,
            "cleaning: everything on the device is destroyed"
        );
    }

    pub(super) fn carry_out(self) -> Result<Cleaned, CleanError> {
        let removed = self.found()?;
        let places: Vec<Range<u64>> = self
            .target
            .partitions
            .iter()
            .map(|(_, place)| place.clone())
            .collect();
        for range in plan::overwritten(self.target.size, &places) {
            self.go_on()?;
            self.zero(&range)?;
        }
        self.remove_all()?;
        let discarded = self.discard();
        // What a device gives for discarded blocks is its own affair.
        self.remove_all()?;
        let numbers: Vec<u32> = self
            .target
            .partitions
            .iter()
            .map(|(number, _)| *number)
            .collect();
        if self.target.seen.disk.is_none()
            && !numbers.is_empty()
            && let Err(error) = self.alone.forget_partitions(&numbers)
        {
            // The device is clean all the same, and may be somebody's soon.
            tracing::warn!(
                device = self.target.path,
                %error,
                "the kernel keeps the partitions of a device that was cleaned: somebody has one open"
            );
        }
        Ok(Cleaned {
            removed: removed.iter().map(ToString::to_string).collect(),
            discarded,
        })
    }

    /// What is on the device and its partitions, in the order of its places.
    fn found(&self) -> Result<Vec<Leftover>, CleanError> {
        let mut found = self.on()?;
        for (_, place) in &self.target.partitions {
            let within = place.start.min(self.target.size)..place.end.min(self.target.size);
            if within.is_empty() {
                continue;
            }
            let file = &self.alone.file;
            let length = within.end - within.start;
            let leftovers = self.leftovers.within(file, within.start, length);
            found.extend(leftovers.map_err(|why| self.unreadable(why))?);
        }
        found.sort_by(|one, other| (one.offset, &one.kind).cmp(&(other.offset, &other.kind)));
        found.dedup();
        Ok(found)
    }

    fn on(&self) -> Result<Vec<Leftover>, CleanError> {
        self.leftovers
            .on(&self.alone.file)
            .map_err(|why| self.unreadable(why))
    }

    /// Removes signatures until there are none, as the device has them.
    fn remove_all(&self) -> Result<(), CleanError> {
        for _ in 0..ROUNDS {
            self.alone
                .settle()
                .map_err(self.target.failed("what was written does not reach it"))?;
            let found = self.on()?;
            if found.is_empty() {
                return Ok(());
            }
            for leftover in found {
                self.go_on()?;
                if let Some(begin) = leftover.offset {
                    let end = begin.saturating_add(leftover.length.max(1));
                    self.zero(&(begin..end.min(self.target.size)))?;
                }
            }
        }
        let what: Vec<String> = self.on()?.iter().map(ToString::to_string).collect();
        if what.is_empty() {
            return Ok(());
        }
        Err(CleanError::Remains {
            path: self.target.path.clone(),
            what: what.join(", "),
        })
    }

    /// Whether the device took the discard of all its blocks. One that cannot
    /// is clean all the same, and so is one whose agent ends.
    fn discard(&self) -> bool {
        for range in plan::discarded(self.target.size) {
            if self.stop.is_cancelled() {
                return false;
            }
            match self.alone.discard(&range) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    tracing::warn!(
                        device = self.target.path,
                        %error,
                        at = range.start,
                        "the device fails to discard"
                    );
                    return false;
                }
            }
        }
        true
    }

    fn zero(&self, range: &Range<u64>) -> Result<(), CleanError> {
        let written = self.alone.zero(range);
        written.map_err(self.target.failed("it cannot be written"))
    }

    fn go_on(&self) -> Result<(), CleanError> {
        if self.stop.is_cancelled() {
            return Err(CleanError::Interrupted);
        }
        Ok(())
    }

    fn unreadable(&self, why: String) -> CleanError {
        CleanError::Unreadable {
            path: self.target.path.clone(),
            why,
        }
    }
}
