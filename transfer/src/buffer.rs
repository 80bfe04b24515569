//! Memory for image bytes: aligned for direct I/O, bounded in sum, reused.
//!
//! Every byte of an image passes through a [`Buffer`]. Handing one out takes
//! its size from the budget and waits when there is none; dropping it gives
//! the size back. Idle memory is kept for the next one, as asking the system
//! for fresh pages costs more than filling them.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Suits every block size and page size that direct I/O asks for.
const ALIGNMENT: usize = 4096;
/// The budget is counted in these.
const UNIT: usize = 4096;
/// Buffers are made in few sizes, so that most can be reused for most: this
/// one, this one doubled, and so on.
const SMALLEST: usize = 256 << 10;

/// The budget, and the idle memory.
pub(crate) struct Memory {
    units: Arc<Semaphore>,
    limit: u32,
    idle: Mutex<Vec<Block>>,
}

/// A piece of memory that begins at an aligned address.
struct Block {
    bytes: Vec<u8>,
    start: usize,
    capacity: usize,
}

impl Block {
    fn new(capacity: usize) -> Self {
        let bytes = vec![0; capacity + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self {
            bytes,
            start,
            capacity,
        }
    }
}

impl Memory {
    /// Memory of at most `budget` bytes at once.
    pub(crate) fn new(budget: usize) -> Arc<Self> {
        let limit = u32::try_from(budget / UNIT)
            .unwrap_or(u32::MAX)
            .clamp(1, 1 << 24);
        Arc::new(Self {
            units: Arc::new(Semaphore::new(limit as usize)),
            limit,
            idle: Mutex::new(Vec::new()),
        })
    }

    /// A buffer of `length` bytes of whatever value, once the budget has room
    /// for it. One that is larger than the whole budget takes all of it.
    pub(crate) async fn take(self: &Arc<Self>, length: usize) -> Buffer {
        let capacity = length.max(SMALLEST).next_power_of_two();
        let units = u32::try_from(capacity / UNIT)
            .unwrap_or(u32::MAX)
            .min(self.limit);
        // The semaphore is never closed.
        let permit = Arc::clone(&self.units).acquire_many_owned(units).await.ok();
        let block = self.reuse(capacity).unwrap_or_else(|| Block::new(capacity));
        Buffer {
            block: Some(block),
            length,
            memory: Some(Arc::clone(self)),
            permit,
        }
    }

    fn reuse(&self, capacity: usize) -> Option<Block> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one given back is the one that the caches still hold.
        let fits = |block: &Block| block.capacity == capacity;
        if let Some(index) = idle.iter().rposition(fits) {
            return Some(idle.remove(index));
        }
        // Sizes have changed: let the memory go rather than hold it twice.
        if !idle.is_empty() {
            idle.remove(0);
        }
        None
    }

    fn give_back(&self, block: Block) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let held: usize = idle.iter().map(|block| block.capacity).sum();
        if (held + block.capacity) / UNIT <= self.limit as usize / 2 {
            idle.push(block);
        }
    }
}

/// Aligned bytes, counted against the budget as long as they live.
pub(crate) struct Buffer {
    block: Option<Block>,
    length: usize,
    memory: Option<Arc<Memory>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Buffer {
    /// A buffer outside any budget, of zeros: for the fixed few that a worker
    /// keeps.
    pub(crate) fn fixed(length: usize) -> Self {
        Self {
            block: Some(Block::new(length)),
            length,
            memory: None,
            permit: None,
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.block
            .as_ref()
            .and_then(|block| block.bytes.get(block.start..block.start + self.length))
            .unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.block
            .as_mut()
            .and_then(|block| block.bytes.get_mut(block.start..block.start + self.length))
            .unwrap_or_default()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (Some(block), Some(memory)) = (self.block.take(), self.memory.take()) {
            memory.give_back(block);
        }
        drop(self.permit.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn buffers_are_aligned_and_bounded() {
        let memory = Memory::new(1 << 20);
        let first = memory.take(700_000).await;
        assert_eq!(first.len(), 700_000);
        assert_eq!(first.as_ptr().align_offset(ALIGNMENT), 0);
        let mut second = Box::pin(memory.take(700_000));
        assert!(futures_poll(&mut second).is_none(), "the budget is used up");
        drop(first);
        assert_eq!(second.await.len(), 700_000);
        assert_eq!(
            memory.take(8 << 20).await.len(),
            8 << 20,
            "larger than all is let through"
        );
    }

    fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }
}
