//! Decoding and writing, on threads that may block.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hypercloud_disk::Extent;
use hypercloud_disk::plan::{Piece, PieceKind, Plan};
use hypercloud_disk::qcow2::Decoder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::zeros;
use crate::buffer::Buffer;
use crate::error::TransferError;
use crate::sink::Disk;

/// Decoded clusters are gathered up to this before they are written.
const GATHERED: usize = 1 << 20;

/// What a thread needs to settle a job; lent from job to job.
pub(super) struct Worker {
    decoding: Option<Decoding>,
}

struct Decoding {
    decoder: Decoder,
    cluster: usize,
    /// Decoded neighbours, to be written at once.
    gathered: Buffer,
    length: usize,
    /// Where on the disk they begin.
    guest: u64,
}

/// As many workers as may run at once.
pub(super) struct Workers {
    idle: Mutex<Vec<Worker>>,
    permits: Arc<Semaphore>,
}

impl Workers {
    pub(super) fn new(count: usize, plan: &Plan) -> Arc<Self> {
        let worker = || Worker {
            decoding: plan.compression().map(|(compression, cluster)| Decoding {
                decoder: Decoder::new(compression),
                cluster: cluster as usize,
                gathered: Buffer::fixed(GATHERED.max(cluster as usize)),
                length: 0,
                guest: 0,
            }),
        };
        Arc::new(Self {
            idle: Mutex::new((0..count).map(|_| worker()).collect()),
            permits: Arc::new(Semaphore::new(count)),
        })
    }

    /// A worker, once one is free.
    pub(super) async fn take(self: &Arc<Self>) -> Lent {
        // Never closed.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let worker = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        Lent {
            worker: worker.unwrap_or(Worker { decoding: None }),
            home: Arc::clone(self),
            _permit: permit,
        }
    }
}

/// A worker that goes back when it is dropped.
pub(super) struct Lent {
    worker: Worker,
    home: Arc<Workers>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Deref for Lent {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        &self.worker
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Worker {
        &mut self.worker
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let worker = std::mem::replace(&mut self.worker, Worker { decoding: None });
        self.home
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(worker);
    }
}

/// Where bytes go, and their count.
pub(crate) struct Output<'a> {
    pub(crate) disk: &'a Disk,
    /// The shortest run of zeros among data that is not written.
    pub(crate) zero_run: usize,
    pub(crate) written: &'a AtomicU64,
    pub(crate) halt: &'a CancellationToken,
}

impl Output<'_> {
    /// Brings bytes onto the disk, long zeros as zeros.
    pub(crate) fn put(&self, guest: u64, bytes: &[u8]) -> Result<(), TransferError> {
        for part in zeros::parts(bytes, self.zero_run) {
            let start = guest + part.start as u64;
            if part.is_zero {
                let extent = Extent {
                    start,
                    length: (part.end - part.start) as u64,
                };
                if !self.disk.zero(extent, &|| self.halt.is_cancelled())? {
                    return Err(TransferError::Cancelled);
                }
            } else {
                let body = bytes.get(part.start..part.end).unwrap_or_default();
                self.disk.write(start, body)?;
                self.written.fetch_add(body.len() as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

impl Worker {
    /// Brings a job's pieces onto the disk. `fetched` begins with the source's
    /// bytes from `start` on.
    pub(super) fn settle(
        &mut self,
        pieces: &[Piece],
        start: u64,
        fetched: &mut Buffer,
        disk: &Disk,
        written: &AtomicU64,
        halt: &CancellationToken,
    ) -> Result<(), TransferError> {
        let output = Output {
            disk,
            zero_run: disk.zero_run(),
            written,
            halt,
        };
        for piece in pieces {
            if halt.is_cancelled() {
                return Err(TransferError::Cancelled);
            }
            let from = (piece.host - start) as usize;
            let to = from + piece.source_length as usize;
            match (piece.kind, &mut self.decoding) {
                (PieceKind::Plain, _) => {
                    let padded = from + piece.disk_length as usize;
                    fetched.get_mut(to..padded).unwrap_or_default().fill(0);
                    output.put(piece.guest, fetched.get(from..padded).unwrap_or_default())?;
                }
                (PieceKind::Compressed, Some(decoding)) => {
                    let input = fetched.get(from..to).unwrap_or_default();
                    decoding.add(piece, input, &output)?;
                }
                (PieceKind::Compressed, None) => return Err(TransferError::Worker),
            }
        }
        if let Some(decoding) = &mut self.decoding {
            decoding.put(&output)?;
        }
        Ok(())
    }
}

impl Decoding {
    /// Decodes a cluster, gathering it with those before it when they are its
    /// neighbours on the disk.
    fn add(
        &mut self,
        piece: &Piece,
        input: &[u8],
        output: &Output<'_>,
    ) -> Result<(), TransferError> {
        let is_neighbour = self.guest + self.length as u64 == piece.guest;
        if !is_neighbour || self.length + self.cluster > self.gathered.len() {
            self.put(output)?;
            self.guest = piece.guest;
        }
        let end = self.length + self.cluster;
        let cluster = self.gathered.get_mut(self.length..end).unwrap_or_default();
        self.decoder.decode(piece.host, input, cluster)?;
        // The disk may end within its last cluster.
        self.length += piece.disk_length as usize;
        Ok(())
    }

    fn put(&mut self, output: &Output<'_>) -> Result<(), TransferError> {
        let length = std::mem::take(&mut self.length);
        output.put(self.guest, self.gathered.get(..length).unwrap_or_default())
    }
}
