//! Why a transfer did not happen.
//!
//! One enum per stage; [`TransferError`] joins them. Each error has a stable
//! reason, says whether another try may succeed, and whose doing it is.
//! Displays never hold a URL's user part or query.

mod source;
mod target;

use std::error::Error as _;

use hypercloud_disk::{ImageFormat, Refusal};

pub use self::source::SourceError;
pub use self::target::TargetError;
use crate::checksum::Checksum;

/// Whose doing a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The source could not be read.
    Source,
    /// The source was read and will not be imported as it is.
    Refused,
    /// The target could not be written.
    Target,
    /// The caller asked to stop.
    Cancelled,
}

/// Why a transfer ended without a disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The source could not be read.
    #[error("reading the source failed")]
    Source(#[source] SourceError),
    /// The image is not taken.
    #[error("the image is refused")]
    Refused(#[from] Refusal),
    /// Not the format it was said to be.
    #[error(
        "the image was said to be {declared}, but is {found}: correct the format or the source"
    )]
    FormatMismatch {
        /// What it was said to be.
        declared: ImageFormat,
        /// What it is.
        found: ImageFormat,
    },
    /// Not the bytes they were said to be.
    #[error(
        "the source's checksum is {found}, not {expected}: the source is damaged or another, or the checksum is of another file"
    )]
    ChecksumMismatch {
        /// What it was said to be.
        expected: Checksum,
        /// What it is.
        found: Checksum,
    },
    /// The target could not be written.
    #[error("writing the target failed")]
    Target(#[from] TargetError),
    /// The store did not take the object.
    #[error("storing the object failed")]
    Store(#[source] SourceError),
    /// The observer could not keep a checkpoint.
    #[error("keeping the checkpoint failed")]
    Journal(#[source] std::io::Error),
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// A worker thread died: a defect of the engine.
    #[error("a worker of the transfer died unexpectedly")]
    Worker,
}

impl From<SourceError> for TransferError {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Refused(refusal) => Self::Refused(refusal),
            error => Self::Source(error),
        }
    }
}

impl TransferError {
    /// What a store did, or the way to it.
    pub(crate) fn from_store(error: impl Into<SourceError>) -> Self {
        Self::Store(error.into())
    }

    /// A stable CamelCase name for conditions, Events and scripts.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Source(error) | Self::Store(error) => error.reason(),
            Self::Refused(refusal) => refusal.reason(),
            Self::FormatMismatch { .. } => "FormatMismatch",
            Self::ChecksumMismatch { .. } => "ChecksumMismatch",
            Self::Target(error) => error.reason(),
            Self::Journal(_) => "JournalFailed",
            Self::Cancelled => "Cancelled",
            Self::Worker => "InternalError",
        }
    }

    /// Whether another try may succeed without anybody changing anything.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Source(error) | Self::Store(error) => error.is_retryable(),
            Self::Refused(_)
            | Self::FormatMismatch { .. }
            | Self::ChecksumMismatch { .. }
            | Self::Cancelled => false,
            Self::Target(error) => error.is_retryable(),
            Self::Journal(_) | Self::Worker => true,
        }
    }

    /// Whose doing it is.
    #[must_use]
    pub fn side(&self) -> Side {
        match self {
            Self::Source(SourceError::AddressRefused { .. })
            | Self::Store(SourceError::AddressRefused { .. })
            | Self::Refused(_)
            | Self::FormatMismatch { .. }
            | Self::ChecksumMismatch { .. } => Side::Refused,
            Self::Source(_) => Side::Source,
            Self::Target(_) | Self::Store(_) | Self::Journal(_) | Self::Worker => Side::Target,
            Self::Cancelled => Side::Cancelled,
        }
    }

    /// The whole chain in one sentence for people.
    #[must_use]
    pub fn message(&self) -> String {
        let mut message = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let words = error.to_string();
            // Some layers below repeat what is beneath them.
            if !message.ends_with(&words) {
                message.push_str(": ");
                message.push_str(&words);
            }
            cause = error.source();
        }
        message
    }
}
