//! A source that can only be read from its beginning to its end.
//!
//! One task reads the body and serves stretches of it in the order in which
//! they were asked for. The last bytes that went by are kept, as neighbouring
//! stretches may share a few; anything further back is gone, and asking for it
//! is [`SourceError::RangesRequired`].
//!
//! A stream that rewinds begins again instead, and reads up to what was asked
//! for. That is how an image is read whose layout does not suit the way its
//! bytes come: it costs another pass rather than room for a copy. It takes a
//! source that says when it changed, as two passes must give the same bytes.

mod origin;

use std::sync::Arc;

use bytes::{Buf, Bytes};
use hypercloud_disk::{Extent, Refusal};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use self::origin::Flow;
pub(super) use self::origin::Origin;
use super::http::{Failure, HttpReader};
use super::retry::Retry;
use super::unpack::{Packed, Part, Plain};
use crate::buffer::Buffer;
use crate::digest::Tap;
use crate::error::SourceError;
use crate::options::Options;

/// How many bytes that went by can be asked for again. QEMU begins a table at
/// a new cluster while compressed data goes on in the old one, so the clusters
/// that a table maps can lie before it: by the rest of a cluster, and the
/// table itself.
const KEPT: usize = 1 << 20;

/// How often a stream rewinds. An image of clusters of 64 KiB takes two or
/// three passes for each 16 GiB of its disk.
const PASSES: u32 = 64;

/// Serves stretches of a stream, in order.
pub(crate) struct StreamReader {
    origin: Origin,
    options: Options,
    asked: mpsc::UnboundedSender<Asked>,
    task: AbortHandle,
}

struct Asked {
    what: Wanted,
    buffer: Buffer,
    reply: oneshot::Sender<Result<Part, SourceError>>,
}

/// What is asked of a stream.
#[derive(Clone, Copy)]
enum Wanted {
    /// The bytes there.
    Place(Extent),
    /// That all of it is read, of which there may be so many bytes.
    End { most: u64 },
}

/// The answer to come.
pub(super) struct Answer {
    reply: oneshot::Receiver<Result<Part, SourceError>>,
    location: String,
}

impl Answer {
    /// The bytes that were asked for; fewer only where the source ended, and
    /// had not said how long it is.
    pub(super) async fn wait(self) -> Result<Part, SourceError> {
        // The task ends only with the reader.
        self.reply
            .await
            .unwrap_or(Err(SourceError::Stalled(self.location)))
    }

    /// All the bytes at `place`, which was asked for.
    pub(super) async fn wait_for(self, place: Extent) -> Result<Buffer, SourceError> {
        let location = self.location.clone();
        let (buffer, filled) = self.wait().await?.into_inner();
        let received = place.start + filled as u64;
        if received < place.end() {
            return Err(SourceError::WrongLength {
                location,
                expected: place.end(),
                received,
            });
        }
        Ok(buffer)
    }
}

impl StreamReader {
    /// A file on a server without ranges.
    pub(super) fn new(reader: HttpReader) -> Self {
        let options = reader.options().clone();
        Self::start(Origin::Http(reader, None), options, 0, None)
    }

    /// The same, before anything was read of it, with its bytes' digest taken
    /// as they go by.
    pub(super) fn tapped(self, tap: Arc<Tap>) -> Self {
        match self.origin.clone() {
            Origin::Http(reader, _) => {
                let origin = Origin::Http(reader, Some(tap));
                Self::start(origin, self.options.clone(), 0, None)
            }
            Origin::Packed(_) => self,
        }
    }

    /// What is packed in another source, of which `first` was read already.
    pub(super) fn unpacked(
        packed: Arc<Packed>,
        options: Options,
        first: Option<Part>,
        rest: Plain,
    ) -> Self {
        let first = first.map_or_else(Bytes::new, Bytes::from_owner);
        let begun = Some((first, Flow::Packed(rest)));
        Self::start(Origin::Packed(packed), options, 0, begun)
    }

    /// The same source from its beginning, as a stream that rewinds; `None`
    /// where a second pass could be over other bytes.
    pub(super) fn rewinding(&self) -> Option<Self> {
        self.origin
            .is_repeatable()
            .then(|| Self::start(self.origin.clone(), self.options.clone(), PASSES, None))
    }

    fn start(origin: Origin, options: Options, rewinds: u32, begun: Option<(Bytes, Flow)>) -> Self {
        let (asked, questions) = mpsc::unbounded_channel();
        let (pending, flow) =
            begun.map_or((Bytes::new(), None), |(first, flow)| (first, Some(flow)));
        let stream = Stream {
            retry: Retry::new(&options),
            origin: origin.clone(),
            rewinds,
            flow,
            most: None,
            pending,
            position: 0,
            kept: Vec::with_capacity(2 * KEPT),
        };
        let task = tokio::spawn(stream.serve(questions)).abort_handle();
        Self {
            origin,
            options,
            asked,
            task,
        }
    }

    pub(super) fn ask(&self, place: Extent, buffer: Buffer) -> Answer {
        self.want(Wanted::Place(place), buffer)
    }

    fn want(&self, what: Wanted, buffer: Buffer) -> Answer {
        let (reply, answer) = oneshot::channel();
        // Fails only when the task has ended; then the answer says so.
        let _ = self.asked.send(Asked {
            what,
            buffer,
            reply,
        });
        Answer {
            reply: answer,
            location: self.origin.shown(),
        }
    }

    /// Reads on to the end, so that all that is packed in a source was found
    /// good; that is within `most` bytes, or the source is refused.
    pub(super) fn drain(&self, most: u64) -> Answer {
        self.want(Wanted::End { most }, Buffer::fixed(0))
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(super) fn received(&self) -> u64 {
        self.origin.received()
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Stream {
    origin: Origin,
    retry: Retry,
    /// How often it may begin again for what has gone by.
    rewinds: u32,
    flow: Option<Flow>,
    /// All that is left is asked for, and this is where it has to end.
    most: Option<u64>,
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
            what,
            mut buffer,
            reply,
        }) = questions.recv().await
        {
            let result = match what {
                Wanted::Place(place) => {
                    let length = usize::try_from(place.length).unwrap_or(usize::MAX);
                    let into = buffer.get_mut(..length).unwrap_or_default();
                    self.fill(place, into).await
                }
                Wanted::End { most } => self.drain(most).await,
            };
            // Whoever asked may have stopped listening.
            let _ = reply.send(result.map(|filled| Part::new(buffer, filled)));
        }
    }

    async fn drain(&mut self, most: u64) -> Result<usize, SourceError> {
        self.most = Some(most);
        while self.position <= most {
            if self.advance(usize::MAX).await?.is_empty() {
                return Ok(0);
            }
        }
        Err(SourceError::Refused(Refusal::Endless { limit: most }))
    }

    async fn fill(&mut self, place: Extent, into: &mut [u8]) -> Result<usize, SourceError> {
        let mut filled = 0;
        self.most = None;
        if place.start < self.position {
            match self.gone_by(place.start) {
                Some(kept) => {
                    filled = kept.len().min(into.len());
                    into.get_mut(..filled)
                        .unwrap_or_default()
                        .copy_from_slice(&kept[..filled]);
                }
                None => self.rewind()?,
            }
        }
        while self.position < place.start {
            let ahead = place.start - self.position;
            let ahead = usize::try_from(ahead).unwrap_or(usize::MAX);
            if self.advance(ahead).await?.is_empty() {
                return Ok(0);
            }
        }
        while filled < into.len() {
            let part = self.advance(into.len() - filled).await?;
            if part.is_empty() {
                break;
            }
            into.get_mut(filled..filled + part.len())
                .unwrap_or_default()
                .copy_from_slice(&part);
            filled += part.len();
        }
        Ok(filled)
    }

    /// What is kept from a place behind the position on.
    fn gone_by(&self, start: u64) -> Option<&[u8]> {
        let back = usize::try_from(self.position - start).ok()?;
        self.kept.get(self.kept.len().checked_sub(back)?..)
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        if self.rewinds == 0 {
            return Err(SourceError::RangesRequired(self.origin.shown()));
        }
        self.rewinds -= 1;
        tracing::debug!(position = self.position, "reading the source again");
        self.flow = None;
        self.pending = Bytes::new();
        self.position = 0;
        self.kept.clear();
        Ok(())
    }

    /// The next bytes of the source, at most `limit`; none at the end of one
    /// that has not said how long it is.
    async fn advance(&mut self, limit: usize) -> Result<Bytes, SourceError> {
        while self.pending.is_empty() {
            match self.receive().await? {
                Some(chunk) => self.pending = chunk,
                None => return Ok(Bytes::new()),
            }
        }
        let part = self.pending.split_to(limit.min(self.pending.len()));
        if let Some(tap) = self.origin.tap() {
            tap.feed(self.position, &part);
        }
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
    async fn receive(&mut self) -> Result<Option<Bytes>, SourceError> {
        loop {
            let failure = match self.try_receive().await {
                Ok(chunk) => return Ok(chunk),
                Err(failure) => failure,
            };
            self.flow = None;
            let safe = self.position == 0 || self.origin.is_repeatable();
            if !safe || !self.origin.is_worth_another_try() {
                return Err(failure.error);
            }
            self.retry.pause(failure.error, failure.after).await?;
        }
    }

    async fn try_receive(&mut self) -> Result<Option<Bytes>, Failure> {
        let mut behind = 0;
        let mut flow = match self.flow.take() {
            Some(flow) => flow,
            None => {
                behind = self.position;
                self.origin.begin().await?
            }
        };
        let chunk = loop {
            let Some(mut chunk) = flow.chunk().await? else {
                break None;
            };
            let gone = behind.min(chunk.len() as u64);
            behind -= gone;
            chunk.advance(gone as usize);
            if !chunk.is_empty() {
                break Some(chunk);
            }
        };
        self.flow = Some(flow);
        // An end before the place where it broke last time is another's.
        let may_end = self.most.is_some() || self.origin.has_open_end();
        if chunk.is_none() && (behind > 0 || !may_end) {
            return Err(self.origin.ended(self.position).into());
        }
        Ok(chunk)
    }
}
