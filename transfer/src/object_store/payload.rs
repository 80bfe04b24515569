//! What a part holds when it is sent: bytes at hand, or a stretch of a disk,
//! which is read again.
//!
//! Invariant: of a stretch the last bytes are given only when all of them have
//! the checksum that they had when they were read first, so no store takes
//! another state of the disk for the part.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::buffer::Buffer;
use crate::error::SourceError;
use crate::raw_disk::SourceDisk;

/// What is read at once.
const PIECE: usize = 1 << 20;
/// It suits every device's blocks.
const BLOCK: usize = 4096;

/// What a part holds.
pub(crate) enum Payload {
    /// These bytes.
    Held(Bytes),
    /// What a disk has there.
    Stretch(Stretch),
}

/// A stretch of a disk that was read before.
#[derive(Clone)]
pub(crate) struct Stretch {
    pub(crate) source: Arc<SourceDisk>,
    pub(crate) start: u64,
    pub(crate) length: u64,
    /// Its CRC-32C.
    pub(crate) sum: u32,
    /// Knows of all that is being read.
    pub(crate) readers: TaskTracker,
}

impl Payload {
    /// How many bytes it is.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Held(bytes) => bytes.len() as u64,
            Self::Stretch(stretch) => stretch.length,
        }
    }

    /// Its CRC-32C.
    pub(super) fn sum(&self) -> u32 {
        match self {
            Self::Held(bytes) => crc32c::crc32c(bytes),
            Self::Stretch(stretch) => stretch.sum,
        }
    }

    /// The body of one request. Why the disk cannot be read is told to
    /// `trouble`.
    pub(super) fn body(&self, trouble: &mpsc::UnboundedSender<SourceError>) -> ByteStream {
        match self {
            Self::Held(bytes) => ByteStream::from(bytes.clone()),
            Self::Stretch(stretch) => {
                ByteStream::from_body_1_x(stretch.clone().reading(trouble.clone()))
            }
        }
    }
}

impl Stretch {
    fn reading(self, trouble: mpsc::UnboundedSender<SourceError>) -> Reading {
        let (sender, pieces) = mpsc::channel(1);
        let left = self.length;
        self.readers.clone().spawn_blocking(move || {
            if let Err(error) = self.read(&sender) {
                // Whoever asked may have gone.
                let _ = trouble.send(error);
            }
        });
        Reading { pieces, left }
    }

    /// Reads all of it, as long as somebody takes it.
    fn read(&self, pieces: &mpsc::Sender<Bytes>) -> Result<(), SourceError> {
        let mut buffer = Buffer::fixed(PIECE);
        let (mut at, end) = (self.start, self.start + self.length);
        let mut sum = 0;
        while at < end {
            let length = (end - at).min(PIECE as u64) as usize;
            let blocks = buffer.get_mut(..length.next_multiple_of(BLOCK));
            self.source.read(at, blocks.unwrap_or_default())?;
            let bytes = buffer.get(..length).unwrap_or_default();
            sum = crc32c::crc32c_append(sum, bytes);
            at += length as u64;
            if at == end && sum != self.sum {
                return Err(self.source.changed());
            }
            let piece = Bytes::copy_from_slice(bytes);
            if pieces.blocking_send(piece).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// A stretch on its way.
struct Reading {
    pieces: mpsc::Receiver<Bytes>,
    left: u64,
}

impl Body for Reading {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(match ready!(self.pieces.poll_recv(context)) {
            Some(piece) => {
                self.left = self.left.saturating_sub(piece.len() as u64);
                Some(Ok(Frame::data(piece)))
            }
            None if self.left > 0 => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
