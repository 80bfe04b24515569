//! The digest of the disk's content, taken beside the compression.
//!
//! What is read comes here in the disk's order, and is kept until it was
//! taken in. What is left out was zeros.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::buffer::Buffer;
use crate::checksum::{Algorithm, Checksum};
use crate::digest::{DigestMark, Tap};
use crate::error::TransferError;

/// As many stretches wait at most.
const WAITING: usize = 4;
pub(super) static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

enum Task {
    Take(Arc<Buffer>, Range<usize>),
    Zeros(u64),
    Mark(oneshot::Sender<DigestMark>),
}

/// Where stretches are handed in. The digest is had when this is dropped.
pub(super) struct Lane {
    tasks: SyncSender<Task>,
    /// All of the disk before this was handed in.
    at: u64,
}

/// Takes them in, on a thread that may block.
pub(super) struct Hashing {
    tasks: Receiver<Task>,
    tap: Tap,
}

/// A lane that begins, or goes on where `mark` was.
pub(super) fn lane(mark: Option<&DigestMark>) -> (Lane, Hashing) {
    let (sender, tasks) = sync_channel(WAITING);
    let tap = Tap::new(Algorithm::Sha256, mark);
    let lane = Lane {
        tasks: sender,
        at: tap.position(),
    };
    (lane, Hashing { tasks, tap })
}

impl Lane {
    fn send(&self, task: Task) -> Result<(), TransferError> {
        // Nobody is at the other end only when all of it ends.
        self.tasks.send(task).map_err(|_| TransferError::Cancelled)
    }

    /// Hands in what `buffer`, whose first byte is at `start`, has of the disk
    /// up to `end`.
    pub(super) fn take(
        &mut self,
        buffer: &Arc<Buffer>,
        start: u64,
        end: u64,
    ) -> Result<(), TransferError> {
        self.zeros(start.min(end))?;
        if end > self.at && self.at >= start {
            let range = (self.at - start) as usize..(end - start) as usize;
            self.send(Task::Take(Arc::clone(buffer), range))?;
            self.at = end;
        }
        Ok(())
    }

    /// What is left up to `end` is zeros.
    pub(super) fn zeros(&mut self, end: u64) -> Result<(), TransferError> {
        if end > self.at {
            self.send(Task::Zeros(end - self.at))?;
            self.at = end;
        }
        Ok(())
    }

    /// The digest's state behind all that was handed in, once it is there.
    pub(super) fn mark(&self) -> Result<oneshot::Receiver<DigestMark>, TransferError> {
        let (sender, receiver) = oneshot::channel();
        self.send(Task::Mark(sender))?;
        Ok(receiver)
    }
}

impl Hashing {
    /// Takes in all that is handed in; the digest of it.
    pub(super) fn run(self, halt: &CancellationToken) -> Result<Checksum, TransferError> {
        while let Ok(task) = self.tasks.recv() {
            if halt.is_cancelled() {
                return Err(TransferError::Cancelled);
            }
            match task {
                Task::Take(buffer, range) => {
                    let bytes = buffer.get(range).unwrap_or_default();
                    self.tap.feed(self.tap.position(), bytes);
                }
                Task::Zeros(count) => self.zeros(count, halt)?,
                // Who asked may have gone.
                Task::Mark(asked) => drop(asked.send(self.tap.mark())),
            }
        }
        if halt.is_cancelled() {
            return Err(TransferError::Cancelled);
        }
        self.tap.checksum().ok_or(TransferError::Worker)
    }

    fn zeros(&self, mut count: u64, halt: &CancellationToken) -> Result<(), TransferError> {
        while count > 0 {
            if halt.is_cancelled() {
                return Err(TransferError::Cancelled);
            }
            let length = count.min(ZEROS.len() as u64);
            let zeros = ZEROS.get(..length as usize).unwrap_or_default();
            self.tap.feed(self.tap.position(), zeros);
            count -= length;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn what_is_left_out_is_zeros_and_a_mark_goes_on() {
        let bytes: Vec<u8> = (0..255).collect();
        let mut buffer = Buffer::fixed(bytes.len());
        buffer.copy_from_slice(&bytes);
        let buffer = Arc::new(buffer);
        let end = 3_000_000;
        let mut disk = vec![0; end as usize];
        disk[1_500_000..][..255].copy_from_slice(&bytes);
        let expected = Checksum::new(Algorithm::Sha256, Sha256::digest(&disk).to_vec());

        let halt = CancellationToken::new();
        let (mut one, hashing) = lane(None);
        let first = std::thread::spawn({
            let halt = halt.clone();
            move || hashing.run(&halt)
        });
        one.take(&buffer, 1_500_000, 1_500_100).unwrap();
        let mark = one.mark().unwrap().blocking_recv().unwrap();
        one.take(&buffer, 1_500_000, 1_500_255).unwrap();
        one.zeros(end).unwrap();
        drop(one);
        assert_eq!(first.join().unwrap().ok(), expected);

        let (mut other, hashing) = lane(Some(&mark));
        let second = std::thread::spawn({
            let halt = halt.clone();
            move || hashing.run(&halt)
        });
        other.take(&buffer, 1_500_000, 1_500_255).unwrap();
        other.zeros(end).unwrap();
        drop(other);
        assert_eq!(second.join().unwrap().ok(), expected);

        let (lane, hashing) = lane(None);
        halt.cancel();
        drop(lane);
        assert!(hashing.run(&halt).is_err());
    }
}
