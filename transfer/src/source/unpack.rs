//! Packed sources: gzip, xz or Zstandard around an image.
//!
//! The packed bytes are fetched ahead ([`feed`]), several ranges at once where
//! the source has them; a thread unpacks them in order ([`inflate`]). What
//! comes out is a [`Plain`], to be read from its beginning to its end. Nothing
//! is kept on the way: whoever needs bytes that have gone by begins again. The
//! blocks of an xz file are unpacked several at once where its index can be
//! read ([`blocks`]).
//!
//! Invariants:
//! - memory is bounded by [`Shares`], whatever the data asks for: what would
//!   take more is refused;
//! - the data's own checksums are verified, and nothing may follow it;
//! - the end of the data is told only after all of it was found good;
//! - packed bytes without end that unpack to nothing are refused.

mod blocks;
mod codec;
mod feed;
mod index;
mod inflate;
mod part;

use std::sync::Arc;

use hypercloud_disk::{Packing, Refusal};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

pub(crate) use self::blocks::{BlockReader, Blocks};
use self::codec::Limits;
pub(crate) use self::index::Block;
use self::inflate::{Input, Output};
pub(crate) use self::part::Part;
use super::Source;
use crate::buffer::Memory;
use crate::digest::Tap;
use crate::error::SourceError;

/// Bytes of one part, packed or plain.
const PART: usize = 1 << 20;

/// How the memory budget is shared out while a packed source is read. Each
/// has its own, so that none waits for what another holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// For packed bytes that were fetched ahead.
    feed: usize,
    /// For plain bytes on their way.
    plain: usize,
    /// For what unpacking needs itself.
    codec: usize,
    /// For whatever reads the plain bytes.
    pub(crate) rest: usize,
}

impl Shares {
    pub(crate) fn of(budget: usize, packing: Packing) -> Self {
        let feed = budget / 8;
        let plain = budget / 12;
        let codec = match packing {
            // A window of 32 KiB, and tables.
            Packing::Gzip => 1 << 20,
            Packing::Xz | Packing::Zstd => budget / 10 * 7,
        };
        Self {
            feed,
            plain,
            codec,
            rest: budget.saturating_sub(feed + plain + codec),
        }
    }
}

/// A packed source.
pub(crate) struct Packed {
    source: Arc<Source>,
    packing: Packing,
    /// Its length, packed, where it is told.
    size: Option<u64>,
    has_validator: bool,
    location: String,
    shares: Shares,
    /// Takes in the packed bytes, where a digest was asked for.
    tap: Option<Arc<Tap>>,
    /// What may still be running.
    tracker: TaskTracker,
}

impl Packed {
    pub(crate) fn new(
        source: Source,
        packing: Packing,
        opened: &super::Opened,
        location: String,
        budget: usize,
        tap: Option<Arc<Tap>>,
    ) -> Self {
        // A second pass over the plain bytes is one over the packed ones.
        let source = match &source {
            Source::Stream(stream) => stream
                .rewinding()
                .map_or(source, |stream| Source::Stream(Box::new(stream))),
            _ => source,
        };
        Self {
            source: Arc::new(source),
            packing,
            size: opened.size,
            has_validator: opened.validator.is_some(),
            location,
            shares: Shares::of(budget, packing),
            tap,
            tracker: TaskTracker::new(),
        }
    }

    pub(crate) fn packing(&self) -> Packing {
        self.packing
    }

    pub(crate) fn shares(&self) -> Shares {
        self.shares
    }

    pub(crate) fn tap(&self) -> Option<&Arc<Tap>> {
        self.tap.as_ref()
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    pub(crate) fn shown(&self) -> &str {
        &self.location
    }

    pub(crate) fn received(&self) -> u64 {
        self.source.received()
    }

    pub(crate) fn has_validator(&self) -> bool {
        self.has_validator
    }

    /// The blocks of an xz file that can be read anywhere, where it tells.
    pub(crate) async fn blocks(&self) -> Result<Option<Blocks>, SourceError> {
        match (self.packing, self.size) {
            (Packing::Xz, Some(size)) if !self.source.is_stream() => {
                blocks::find(&self.source, size).await
            }
            _ => Ok(None),
        }
    }

    /// Begins to unpack, from the beginning.
    pub(crate) fn begin(&self) -> Plain {
        let (packed, input) = mpsc::channel(1);
        let feed = feed::feed(
            Arc::clone(&self.source),
            self.size,
            Memory::new(self.shares.feed),
            packed,
        );
        let (plain, parts) = mpsc::channel(1);
        let memory = Memory::new(self.shares.plain);
        let (packing, limits) = (
            self.packing,
            Limits {
                memory: self.shares.codec as u64,
            },
        );
        let runtime = Handle::current();
        let tap = self.tap.clone();
        let cut = Cut {
            location: self.location.clone(),
            has_open_end: self.size.is_none(),
        };
        self.tracker.spawn_blocking(move || {
            let room = || Part::new(runtime.block_on(memory.take(PART)), 0);
            let mut output = Output::new(room, |part| {
                plain.blocking_send(Ok(Some(part))).map_err(|_| ())
            });
            let mut input = Input::new(packing, input, tap);
            let end = match inflate::unpack(packing, limits, &mut input, &mut output) {
                Ok(()) => Ok(None),
                Err(inflate::Stop::Failed(error)) => Err(cut.judge(error)),
                Err(inflate::Stop::Abandoned) => return,
            };
            // Whoever took the parts may have stopped.
            let _ = plain.blocking_send(end);
        });
        Plain {
            parts,
            location: self.location.clone(),
            packing: self.packing,
            _feed: AbortOnDropHandle::new(self.tracker.spawn(feed)),
        }
    }

    /// Waits until nothing of what was begun and given up is running.
    pub(crate) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
        self.tracker.reopen();
    }
}

/// Whose doing it is that packed data ends before its end.
struct Cut {
    location: String,
    /// No length was told that the end could be held against.
    has_open_end: bool,
}

impl Cut {
    /// Where nobody said how long the source is, the end of a file that is cut
    /// short looks like that of a connection: another try tells them apart.
    fn judge(self, error: SourceError) -> SourceError {
        match error {
            SourceError::Refused(Refusal::TruncatedPacking(packing)) if self.has_open_end => {
                SourceError::CutShort {
                    location: self.location,
                    packing,
                }
            }
            error => error,
        }
    }
}

/// What is packed in a source, from its beginning to its end.
pub(crate) struct Plain {
    parts: mpsc::Receiver<Result<Option<Part>, SourceError>>,
    location: String,
    packing: Packing,
    _feed: AbortOnDropHandle<()>,
}

impl Plain {
    /// The next bytes: as many as a part has, fewer only at the end; `None`
    /// behind it. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Result<Option<Part>, SourceError> {
        // The thread ends without a word only when it died.
        self.parts
            .recv()
            .await
            .unwrap_or_else(|| Err(SourceError::Stalled(self.location.clone())))
    }

    /// Reads all of it and counts on from `count`.
    ///
    /// # Errors
    /// [`Refusal::UnpacksTooLarge`] as soon as there are more than `limit`
    /// bytes.
    pub(crate) async fn count(&mut self, mut count: u64, limit: u64) -> Result<u64, SourceError> {
        while let Some(part) = self.next().await? {
            count += part.as_ref().len() as u64;
            if count > limit {
                return Err(SourceError::Refused(Refusal::UnpacksTooLarge {
                    packing: self.packing,
                    limit,
                }));
            }
        }
        Ok(count)
    }
}
