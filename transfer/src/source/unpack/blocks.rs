//! Blocks of an xz file, each unpacked on its own.
//!
//! Finding them takes a few small reads at the end of the source, so it is
//! only for sources that can be read anywhere. A block is made a stream by
//! what is put around it, so that the decoder checks it as it checks any.

use std::sync::Arc;

use hypercloud_disk::{Extent, MAX_VIRTUAL_SIZE, Packing, Refusal};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::codec::Limits;
use super::feed::{self, Fed};
use super::index::{self, BLOCK_HEADER, Block, FRAME};
use super::inflate::{self, Input, Output, Stop};
use super::{PART, Packed, Part};
use crate::buffer::{Buffer, Memory};
use crate::error::{SourceError, TransferError};
use crate::source::Source;

/// The most streams whose indexes are read; each takes several requests.
const STREAMS: usize = 32;
/// The most filling between streams that is passed over.
const FILLING: u64 = 64 << 10;
/// What a decoder needs beside its dictionary.
const BESIDE: u64 = 1 << 20;
/// The smallest blocks, on average, that are worth requests of their own.
const WORTH: u64 = 256 << 10;
/// Parts of one block that are asked for at once.
const AHEAD: usize = 3;

/// The blocks of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Blocks {
    pub(crate) blocks: Vec<Block>,
    /// What they unpack to.
    pub(crate) plain: u64,
    /// The largest dictionary that one needs.
    dictionary: u64,
}

async fn read(source: &Source, place: Extent) -> Result<Vec<u8>, SourceError> {
    let length = place.length as usize;
    let buffer = source.read(place, Buffer::fixed(length)).await?;
    Ok(buffer.get(..length).unwrap_or_default().to_vec())
}

/// Finds the blocks of an xz file of `size` bytes; `None` where its indexes
/// do not tell.
pub(super) async fn find(source: &Source, size: u64) -> Result<Option<Blocks>, SourceError> {
    let mut streams: Vec<Vec<Block>> = Vec::new();
    let mut dictionary = 0;
    let (mut end, mut filling) = (size, 0);
    while end > 0 {
        let Some(start) = end.checked_sub(FRAME) else {
            return Ok(None);
        };
        let tail = read(source, Extent::between(start, end)).await?;
        if tail.ends_with(&[0; 4]) && filling < FILLING {
            // In steps of the tail's zeros, which are filled in fours.
            let zeros = tail.iter().rev().take_while(|byte| **byte == 0).count() as u64 / 4 * 4;
            filling += zeros;
            end -= zeros;
            continue;
        }
        let Some(stream) = stream(source, &tail, start).await? else {
            return Ok(None);
        };
        if streams.len() >= STREAMS {
            return Ok(None);
        }
        dictionary = dictionary.max(stream.dictionary);
        streams.push(stream.blocks);
        end = stream.start;
    }
    // They were found from the last to the first.
    let mut blocks: Vec<Block> = streams.into_iter().rev().flatten().collect();
    let mut plain = 0;
    for block in &mut blocks {
        block.plain.start = plain;
        plain = plain.saturating_add(block.plain.length);
    }
    Ok((plain <= MAX_VIRTUAL_SIZE).then_some(Blocks {
        blocks,
        plain,
        dictionary,
    }))
}

struct Stream {
    start: u64,
    blocks: Vec<Block>,
    dictionary: u64,
}

/// The stream whose footer stands at `footer_at`.
async fn stream(
    source: &Source,
    footer: &[u8],
    footer_at: u64,
) -> Result<Option<Stream>, SourceError> {
    let Some(footer) = index::footer(footer) else {
        return Ok(None);
    };
    let Some(index_at) = footer_at.checked_sub(footer.index_size) else {
        return Ok(None);
    };
    let index = read(source, Extent::between(index_at, footer_at)).await?;
    let Some(records) = index::records(&index) else {
        return Ok(None);
    };
    let padded = |unpadded: u64| unpadded.checked_next_multiple_of(4);
    let total = records.iter().try_fold(FRAME, |sum: u64, record| {
        sum.checked_add(padded(record.unpadded)?)
    });
    let Some(start) = total.and_then(|total| index_at.checked_sub(total)) else {
        return Ok(None);
    };
    let first = start + FRAME;
    let head = Extent::between(start, index_at.min(first + BLOCK_HEADER));
    let head = read(source, head).await?;
    if index::header(&head) != Some(footer.flags) {
        return Ok(None);
    }
    let dictionary = match records.is_empty() {
        true => Some(0),
        false => index::dictionary(head.get(FRAME as usize..).unwrap_or_default()),
    };
    let Some(dictionary) = dictionary else {
        return Ok(None);
    };
    let mut at = first;
    let blocks = records.iter().map(|record| {
        let length = record.unpadded.next_multiple_of(4);
        let block = Block {
            packed: Extent { start: at, length },
            plain: Extent {
                start: 0,
                length: record.plain,
            },
            unpadded: record.unpadded,
            flags: footer.flags,
        };
        at += length;
        block
    });
    Ok(Some(Stream {
        start,
        blocks: blocks.collect(),
        dictionary,
    }))
}

impl Blocks {
    /// How many can be unpacked at once in the memory that there is, of at
    /// most `workers`; `None` where they are better unpacked in order.
    fn at_once(&self, workers: usize, memory: u64) -> Option<usize> {
        let fitting = memory / (self.dictionary + BESIDE);
        let at_once = workers.min(usize::try_from(fitting).unwrap_or(usize::MAX));
        let is_aligned = |block: &Block| block.plain.start.is_multiple_of(4096);
        let worth = self.blocks.len() > 1
            && self.plain / self.blocks.len() as u64 >= WORTH
            && self.blocks.iter().all(is_aligned);
        (worth && at_once > 1).then_some(at_once)
    }
}

/// Unpacks blocks, several at once.
pub(crate) struct BlockReader {
    packed: Arc<Packed>,
    feed: Arc<Memory>,
    plain: Arc<Memory>,
    /// Blocks that may be under way at once.
    pub(crate) at_once: usize,
    limits: Limits,
}

impl Packed {
    /// A reader of blocks, where they are worth it.
    pub(crate) fn by_blocks(
        self: &Arc<Self>,
        blocks: &Blocks,
        workers: usize,
    ) -> Option<BlockReader> {
        let memory = self.shares.codec as u64;
        // Each holds a plain part while it waits for packed bytes: if there
        // were more of them than parts, they could wait for each other.
        let workers = workers.min(self.shares.plain / PART);
        let at_once = blocks.at_once(workers, memory)?;
        Some(BlockReader {
            packed: Arc::clone(self),
            feed: Memory::new(self.shares.feed),
            plain: Memory::new(self.shares.plain),
            at_once,
            limits: Limits {
                memory: memory / at_once as u64,
            },
        })
    }
}

impl BlockReader {
    /// Unpacks a block and gives its bytes to `put`, in order, with their
    /// place. For a thread that may block, of a runtime. Ends early once
    /// `halt` is cancelled.
    ///
    /// # Errors
    /// The first error of `put`, and whatever is wrong with the block.
    pub(crate) fn unpack(
        &self,
        block: Block,
        halt: &CancellationToken,
        mut put: impl FnMut(u64, Part) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let runtime = Handle::current();
        let (to, from) = mpsc::channel(1);
        let (source, memory) = (Arc::clone(&self.packed.source), Arc::clone(&self.feed));
        let halt = halt.clone();
        let _feed = AbortOnDropHandle::new(runtime.spawn(async move {
            tokio::select! {
                () = halt.cancelled() => {}
                () = feed_block(&source, block, &memory, &to) => {}
            }
        }));
        let mut at = block.plain.start;
        let mut failure = None;
        let damaged = || TransferError::Refused(Refusal::DamagedPacking(Packing::Xz));
        let room = || Part::new(runtime.block_on(self.plain.take(PART)), 0);
        let mut output = Output::new(room, |part: Part| {
            let start = at;
            at += part.as_ref().len() as u64;
            let result = if at > block.plain.end() {
                Err(damaged())
            } else {
                put(start, part)
            };
            result.map_err(|error| failure = Some(error))
        });
        let unpacked = inflate::unpack(
            Packing::Xz,
            self.limits,
            &mut Input::new(Packing::Xz, from, None),
            &mut output,
        );
        drop(output);
        match (unpacked, failure) {
            (_, Some(error)) => Err(error),
            (Err(Stop::Failed(error)), None) => Err(error.into()),
            (Err(Stop::Abandoned), None) => Err(TransferError::Cancelled),
            (Ok(()), None) if at < block.plain.end() => Err(damaged()),
            (Ok(()), None) => Ok(()),
        }
    }
}

/// Hands on a block as a stream of its own.
async fn feed_block(source: &Source, block: Block, memory: &Arc<Memory>, to: &mpsc::Sender<Fed>) {
    let around = |bytes: Vec<u8>| {
        let mut buffer = Buffer::fixed(bytes.len());
        buffer.copy_from_slice(&bytes);
        Fed::Part(Part::new(buffer, bytes.len()))
    };
    // A thread that takes no more is told of no more.
    let _ = to.send(around(block.before())).await;
    let last = match feed::known(source, block.packed, AHEAD, memory, to).await {
        Ok(()) => {
            let _ = to.send(around(block.behind())).await;
            Fed::End
        }
        Err(error) => Fed::Failed(error),
    };
    let _ = to.send(last).await;
}
