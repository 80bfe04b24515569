//! Fetching packed bytes in order, ahead of the thread that unpacks them.

use std::collections::VecDeque;
use std::sync::Arc;

use hypercloud_disk::Extent;
use tokio::sync::mpsc::Sender;
use tokio_util::task::AbortOnDropHandle;

use super::{PART, Part};
use crate::buffer::{Buffer, Memory};
use crate::error::SourceError;
use crate::source::Source;

/// The most parts that are asked for at once.
const AHEAD: usize = 8;

/// What the unpacking thread is given.
pub(super) enum Fed {
    Part(Part),
    /// There is no more.
    End,
    Failed(SourceError),
}

/// Reads a source, of `size` bytes where that is known, and hands its parts
/// on in order. Ends early when nobody takes them any more.
pub(super) async fn feed(
    source: Arc<Source>,
    size: Option<u64>,
    memory: Arc<Memory>,
    to: Sender<Fed>,
) {
    let fed = match size {
        Some(size) => known(&source, Extent::between(0, size), AHEAD, &memory, &to).await,
        None => open_ended(&source, &memory, &to).await,
    };
    let last = match fed {
        Ok(()) => Fed::End,
        Err(error) => Fed::Failed(error),
    };
    // Nobody left to tell is no harm.
    let _ = to.send(last).await;
}

type Reading = AbortOnDropHandle<Result<Buffer, SourceError>>;

/// Hands on the bytes at a place, asking for at most `most` parts at once.
pub(super) async fn known(
    source: &Source,
    whole: Extent,
    most: usize,
    memory: &Arc<Memory>,
    to: &Sender<Fed>,
) -> Result<(), SourceError> {
    let mut ahead: VecDeque<(Reading, usize)> = VecDeque::new();
    let mut at = whole.start;
    loop {
        let place = Extent::between(at, whole.end().min(at + PART as u64));
        let length = place.length as usize;
        if length == 0 && ahead.is_empty() {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = to.closed() => return Ok(()),
            buffer = memory.take(PART), if length > 0 && ahead.len() < most => {
                // Asked for here, so that a stream is asked in order.
                let reading = tokio::spawn(source.read(place, buffer));
                ahead.push_back((AbortOnDropHandle::new(reading), length));
                at = place.end();
            }
            Some((read, length)) = front(&mut ahead) => {
                ahead.pop_front();
                let part = Part::new(read?, length);
                if to.send(Fed::Part(part)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// The first of the reads, once it has ended. May be dropped and called again.
async fn front(
    ahead: &mut VecDeque<(Reading, usize)>,
) -> Option<(Result<Buffer, SourceError>, usize)> {
    let (reading, length) = ahead.front_mut()?;
    let read = reading.await.unwrap_or_else(|error| {
        Err(SourceError::Read {
            location: "the source".to_owned(),
            source: std::io::Error::other(error),
        })
    });
    Some((read, *length))
}

async fn open_ended(
    source: &Source,
    memory: &Arc<Memory>,
    to: &Sender<Fed>,
) -> Result<(), SourceError> {
    let mut at = 0;
    loop {
        let place = Extent {
            start: at,
            length: PART as u64,
        };
        let part = source.read_up_to(place, memory.take(PART).await).await?;
        let length = part.as_ref().len();
        at += length as u64;
        if length == 0 || to.send(Fed::Part(part)).await.is_err() {
            return Ok(());
        }
    }
}
