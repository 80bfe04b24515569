//! How an import is carried out.

use std::time::Duration;

use crate::proxy::ProxySettings;

/// Which addresses a source may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AddressPolicy {
    /// Public and private networks. Loopback, link-local, unspecified,
    /// multicast and cloud metadata addresses are refused, judged after name
    /// resolution, at every redirect, on the very address connected to.
    #[default]
    PublicAndPrivate,
    /// Every address.
    Any,
}

/// How much room a disk file's file system must have before the first byte.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SpacePolicy {
    /// Room for the whole disk: what a virtual machine needs later.
    #[default]
    WholeDisk,
    /// None: the file is sparse, and a full file system is met when it is
    /// met.
    Sparse,
}

/// How an import is carried out. The defaults suit the node agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Bytes of image data held in memory at once, at most.
    pub memory_budget: usize,
    /// How long a part of an object may be that is held in memory until the
    /// store has it, where it can be helped: longer ones of a raw disk are
    /// read again as they are sent.
    pub held_part: u64,
    /// Ranges requested from the source at once, to begin with.
    pub connections: usize,
    /// The most that are requested at once, where more give more.
    pub max_connections: usize,
    /// Threads that decode and write; `None` means two more than there are
    /// cores, as some will wait for the disk.
    pub workers: Option<usize>,
    /// Which addresses a source may have.
    pub address_policy: AddressPolicy,
    /// The proxies that requests go through.
    pub proxies: ProxySettings,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a source may stay silent before the connection is given up.
    pub stall_timeout: Duration,
    /// How often one range is tried again without progress in between.
    pub retries: u32,
    /// The first pause between tries; it doubles, with jitter.
    pub backoff_initial: Duration,
    /// The longest pause between tries, a server's own wish included.
    pub backoff_limit: Duration,
    /// Bytes written between two checkpoints, at least; more where that is
    /// still little beside the source.
    pub checkpoint_interval: u64,
    /// The shortest time between two progress reports.
    pub progress_interval: Duration,
    /// How much room a disk file needs up front.
    pub space_policy: SpacePolicy,
    /// Whether [`crate::probe`] reads a packed source to its end where it does
    /// not otherwise tell the size of its disk.
    pub measure: bool,
    /// How many bytes of a disk are counted so at most.
    pub measure_limit: u64,
    /// Whether an unfinished disk file is kept, to be resumed, when an import
    /// ends in an error that is not final.
    pub keep_partial: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memory_budget: 96 << 20,
            held_part: 64 << 20,
            connections: 6,
            max_connections: 16,
            workers: None,
            address_policy: AddressPolicy::default(),
            proxies: ProxySettings::default(),
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            retries: 8,
            backoff_initial: Duration::from_millis(200),
            backoff_limit: Duration::from_secs(20),
            checkpoint_interval: 16 << 20,
            progress_interval: Duration::from_millis(500),
            space_policy: SpacePolicy::default(),
            measure: true,
            measure_limit: 16 << 40,
            keep_partial: true,
        }
    }
}
