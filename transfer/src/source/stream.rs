//! A source that can only be read from its beginning to its end.
//!
//! One task reads the body and serves stretches of it in the order in which
//! they were asked for. The last bytes that went by are kept, as neighbouring
//! stretches may share a few; anything further back is gone, and asking for it
//! is [`SourceError::RangesRequired`].

use bytes::{Buf, Bytes};
use hypercloud_disk::Extent;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::http::{Body, HttpReader};
use super::retry::Retry;
use crate::buffer::Buffer;
use crate::error::SourceError;

/// How many bytes that went by can be asked for again. QEMU begins a table at
/// a new cluster while compressed data goes on in the old one, so the clusters
/// that a table maps can lie before it: by the rest of a cluster, and the
/// table itself.
const KEPT: usize = 1 << 20;

/// Serves stretches of a stream, in order.
pub(crate) struct StreamReader {
    reader: HttpReader,
    asked: mpsc::UnboundedSender<Asked>,
    task: AbortHandle,
}

struct Asked {
    place: Extent,
    buffer: Buffer,
    reply: oneshot::Sender<Result<Buffer, SourceError>>,
}

/// The answer to come.
pub(super) struct Answer {
    reply: oneshot::Receiver<Result<Buffer, SourceError>>,
    location: String,
}

impl Answer {
    pub(super) async fn wait(self) -> Result<Buffer, SourceError> {
        // The task ends only with the reader.
        self.reply
            .await
            .unwrap_or(Err(SourceError::Stalled(self.location)))
    }
}

impl StreamReader {
    pub(super) fn new(reader: HttpReader) -> Self {
        let (asked, questions) = mpsc::unbounded_channel();
        let stream = Stream {
            retry: Retry::new(reader.options()),
            reader: reader.clone(),
            body: None,
            pending: Bytes::new(),
            position: 0,
            kept: Vec::with_capacity(2 * KEPT),
        };
        let task = tokio::spawn(stream.serve(questions)).abort_handle();
        Self {
            reader,
            asked,
            task,
        }
    }

    pub(super) fn ask(&self, place: Extent, buffer: Buffer) -> Answer {
        let (reply, answer) = oneshot::channel();
        // Fails only when the task has ended; then the answer says so.
        let _ = self.asked.send(Asked {
            place,
            buffer,
            reply,
        });
        Answer {
            reply: answer,
            location: self.reader.shown(),
        }
    }

    pub(super) fn received(&self) -> u64 {
        self.reader.received()
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Stream {
    reader: HttpReader,
    retry: Retry,
    body: Option<Body>,
    /// Received and not yet gone by.
    pending: Bytes,
    /// Where in the source `pending` begins.
    position: u64,
    /// What went by last, up to `position`.
    kept: Vec<u8>,
}

impl Stream {
    async fn serve(mut self, mut questions: mpsc::UnboundedReceiver<Asked>) {
        while let Some(Asked {
            place,
            mut buffer,
            reply,
        }) = questions.recv().await
        {
            let length = usize::try_from(place.length).unwrap_or(usize::MAX);
            let into = buffer.get_mut(..length).unwrap_or_default();
            let result = self.fill(place, into).await;
            // Whoever asked may have stopped listening.
            let _ = reply.send(result.map(|()| buffer));
        }
    }

    async fn fill(&mut self, place: Extent, into: &mut [u8]) -> Result<(), SourceError> {
        let mut filled = 0;
        if place.start < self.position {
            let back = usize::try_from(self.position - place.start).unwrap_or(usize::MAX);
            let from = self
                .kept
                .len()
                .checked_sub(back)
                .ok_or_else(|| SourceError::RangesRequired(self.reader.shown()))?;
            let kept = self.kept.get(from..).unwrap_or_default();
            filled = kept.len().min(into.len());
            into.get_mut(..filled)
                .unwrap_or_default()
                .copy_from_slice(&kept[..filled]);
        }
        while self.position < place.start {
            let ahead = place.start - self.position;
            self.advance(usize::try_from(ahead).unwrap_or(usize::MAX))
                .await?;
        }
        while filled < into.len() {
            let part = self.advance(into.len() - filled).await?;
            into.get_mut(filled..filled + part.len())
                .unwrap_or_default()
                .copy_from_slice(&part);
            filled += part.len();
        }
        Ok(())
    }

    /// The next bytes of the source, at least one and at most `limit`.
    async fn advance(&mut self, limit: usize) -> Result<Bytes, SourceError> {
        while self.pending.is_empty() {
            self.pending = self.receive().await?;
        }
        let part = self.pending.split_to(limit.min(self.pending.len()));
        self.position += part.len() as u64;
        self.keep(&part);
        Ok(part)
    }

    fn keep(&mut self, part: &[u8]) {
        if self.kept.len() + part.len() > 2 * KEPT {
            let surplus = self.kept.len().saturating_sub(KEPT);
            self.kept.drain(..surplus);
        }
        let tail = part.len().saturating_sub(KEPT);
        if tail > 0 {
            // The kept bytes are those just before the position, without a gap.
            self.kept.clear();
        }
        self.kept
            .extend_from_slice(part.get(tail..).unwrap_or_default());
    }

    /// Bytes that follow `position`. A broken body is begun again and skipped
    /// to where it broke, which only a validator makes safe. Each new
    /// beginning costs all that came before, so progress grants no more of
    /// them.
    async fn receive(&mut self) -> Result<Bytes, SourceError> {
        loop {
            let failure = match self.try_receive().await {
                Ok(chunk) => return Ok(chunk),
                Err(failure) => failure,
            };
            self.body = None;
            if self.position > 0 && !self.reader.has_validator() {
                return Err(failure.error);
            }
            self.retry.pause(failure.error, failure.after).await?;
        }
    }

    async fn try_receive(&mut self) -> Result<Bytes, super::http::Failure> {
        if self.body.is_none() {
            let mut body = self.reader.begin().await?;
            let mut behind = self.position;
            while behind > 0 {
                let mut chunk = self.next_of(&mut body).await?;
                let gone = behind.min(chunk.len() as u64);
                behind -= gone;
                chunk.advance(gone as usize);
                if !chunk.is_empty() {
                    self.body = Some(body);
                    return Ok(chunk);
                }
            }
            self.body = Some(body);
        }
        let mut body = self.body.take().ok_or_else(|| self.ended())?;
        let chunk = self.next_of(&mut body).await?;
        self.body = Some(body);
        Ok(chunk)
    }

    async fn next_of(&self, body: &mut Body) -> Result<Bytes, super::http::Failure> {
        body.chunk().await?.ok_or_else(|| self.ended().into())
    }

    fn ended(&self) -> SourceError {
        SourceError::WrongLength {
            location: self.reader.shown(),
            expected: self.position + 1,
            received: self.position,
        }
    }
}
