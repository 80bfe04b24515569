//! Why a target could not be written.

use std::path::PathBuf;

/// Why a target could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The disk does not fit.
    #[error("the target has room for {available} bytes, the disk has {needed}")]
    TooSmall {
        /// The disk's size.
        needed: u64,
        /// The target's size, or its file system's room.
        available: u64,
    },
    /// A disk whose size is known only at its end does not fit.
    #[error("the target has room for {available} bytes, the disk has more")]
    Outgrown {
        /// The target's size, or its file system's room.
        available: u64,
    },
    /// The file system filled up.
    #[error("the file system of {0} is full")]
    Full(PathBuf),
    /// The device is mounted or otherwise held.
    #[error("{0} is in use")]
    Busy(PathBuf),
    /// Not the kind of thing that was named.
    #[error("{path} is not {expected}")]
    WrongKind {
        /// The path.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
    },
    /// A file name that is more than a name.
    #[error("{0:?} is not a plain file name")]
    InvalidName(String),
    /// The directory's content leads elsewhere: a link or a mount point.
    #[error("{0} is a link or a mount point, which is not followed")]
    Unsafe(PathBuf),
    /// Opening failed.
    #[error("opening {path} failed")]
    Open {
        /// The path.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// Writing failed.
    #[error("writing {path} at offset {offset} failed")]
    Write {
        /// The path.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// What the target holds could not be read, to compare it.
    #[error("reading {path} at offset {offset}, to compare it, failed")]
    Read {
        /// The path.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// A file is there, and is not to be replaced.
    #[error("{0} exists already: choose another name, or say that it is to be overwritten")]
    Exists(PathBuf),
    /// The source by another name.
    #[error("{0} is the source itself: name two different disks")]
    IsSource(PathBuf),
    /// Flushing failed: what was written before is not known to be safe.
    #[error("flushing {path} failed")]
    Flush {
        /// The path.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// The finished file could not be given its owner, mode or name.
    #[error("completing {path} failed")]
    Complete {
        /// The path.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
}

impl TargetError {
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::TooSmall { .. } | Self::Outgrown { .. } => "TargetTooSmall",
            Self::Full(_) => "TargetFull",
            Self::Busy(_) => "TargetBusy",
            Self::WrongKind { .. } => "WrongTargetKind",
            Self::InvalidName(_) => "InvalidTargetName",
            Self::Unsafe(_) => "UnsafeTarget",
            Self::Open { .. } => "TargetOpenFailed",
            Self::Write { .. } => "WriteFailed",
            Self::Read { .. } => "TargetReadFailed",
            Self::Exists(_) => "TargetExists",
            Self::IsSource(_) => "TargetIsSource",
            Self::Flush { .. } => "FlushFailed",
            Self::Complete { .. } => "CompletionFailed",
        }
    }

    pub(super) fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Full(_)
                | Self::Busy(_)
                | Self::Open { .. }
                | Self::Write { .. }
                | Self::Read { .. }
                | Self::Flush { .. }
                | Self::Complete { .. }
        )
    }
}
