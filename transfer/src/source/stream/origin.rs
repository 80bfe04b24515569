//! Where a stream's bytes come from, from the beginning, again if need be.

use std::sync::Arc;

use bytes::Bytes;
use hypercloud_disk::Refusal;

use crate::digest::Tap;
use crate::error::SourceError;
use crate::source::http::{Body, Failure, HttpReader};
use crate::source::unpack::{Packed, Plain};

/// What can be read from its beginning.
#[derive(Clone)]
pub(crate) enum Origin {
    /// A file on a server without ranges, and who takes its digest.
    Http(HttpReader, Option<Arc<Tap>>),
    /// What is packed in another source.
    Packed(Arc<Packed>),
}

/// One pass over an origin.
pub(super) enum Flow {
    Http(Box<Body>),
    Packed(Plain),
}

impl Origin {
    pub(super) async fn begin(&self) -> Result<Flow, Failure> {
        match self {
            Self::Http(reader, _) => Ok(Flow::Http(Box::new(reader.begin().await?))),
            Self::Packed(packed) => Ok(Flow::Packed(packed.begin())),
        }
    }

    /// Who takes the digest of the bytes that go by, where that is not the
    /// business of who unpacks them.
    pub(crate) fn tap(&self) -> Option<&Arc<Tap>> {
        match self {
            Self::Http(_, tap) => tap.as_ref(),
            Self::Packed(_) => None,
        }
    }

    /// Its address as it may be shown.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Http(reader, _) => reader.shown(),
            Self::Packed(packed) => packed.shown().to_owned(),
        }
    }

    pub(super) fn received(&self) -> u64 {
        match self {
            Self::Http(reader, _) => reader.received(),
            Self::Packed(packed) => packed.received(),
        }
    }

    /// Whether a second pass is known to give the same bytes as the first.
    pub(super) fn is_repeatable(&self) -> bool {
        match self {
            Self::Http(reader, _) => reader.has_validator(),
            Self::Packed(packed) => packed.has_validator(),
        }
    }

    /// Whether a pass that broke is worth another: what is packed is fetched
    /// in parts, each of which was tried again already.
    pub(super) fn is_worth_another_try(&self) -> bool {
        matches!(self, Self::Http(..))
    }

    /// Whether the end of a pass is the end of the source, no length having
    /// been told that it could be held against.
    pub(super) fn has_open_end(&self) -> bool {
        match self {
            Self::Http(reader, _) => reader.size().is_none(),
            Self::Packed(_) => false,
        }
    }

    /// What it means that nothing comes behind `position`.
    pub(super) fn ended(&self, position: u64) -> SourceError {
        match self {
            Self::Http(reader, _) => SourceError::WrongLength {
                location: reader.shown(),
                expected: position + 1,
                received: position,
            },
            Self::Packed(_) => SourceError::Refused(Refusal::Truncated {
                needed: position + 1,
                available: position,
            }),
        }
    }
}

impl Flow {
    /// The next bytes, or `None` at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        match self {
            Self::Http(body) => body.chunk().await,
            Self::Packed(plain) => Ok(plain.next().await?.map(Bytes::from_owner)),
        }
    }
}
