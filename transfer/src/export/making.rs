//! One export under way: what makes its parts, and what stores them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::checkpoint::First;
use super::course::{Course, Image, Workers};
use super::lane::lane;
use super::parts::{Behind, Part, Parts, Way};
use super::request::{ExportFormat, ExportObserver};
use super::size::{Sizes, at_once};
use super::worker::{PIECE, buffer_size};
use crate::buffer::Memory;
use crate::checksum::Checksum;
use crate::digest::DigestMark;
use crate::error::TransferError;
use crate::observer::Progress;
use crate::options::Options;
use crate::raw_disk::SourceDisk;

/// The most workers: more gain nothing on one disk.
const MOST_WORKERS: usize = 16;

/// What an export is of, and how it is gone about.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) source: Arc<SourceDisk>,
    /// What tells the disk from itself when it was written to.
    pub(super) state: Option<String>,
    pub(super) format: ExportFormat,
    pub(super) digest: bool,
    /// Who makes the object.
    pub(super) owner: Option<String>,
    pub(super) sizes: Sizes,
    pub(super) options: Options,
    pub(super) observer: Arc<dyn ExportObserver>,
}

/// Where it begins.
#[derive(Default)]
pub(super) struct Start {
    pub(super) behind: Option<Behind>,
    pub(super) layout: Option<hypercloud_disk::layout::Layout>,
    pub(super) digest: Option<DigestMark>,
    /// What was counted before.
    pub(super) before: Progress,
}

/// Stores parts.
#[async_trait]
pub(super) trait Target: Send + Sync + 'static {
    /// Stores a part. Several may be under way at once.
    async fn store(self: Arc<Self>, part: Part) -> Result<(), TransferError>;
}

/// Everything that makes the parts of one object.
pub(super) struct Making {
    job: Job,
    course: Arc<Course>,
    working: JoinSet<Result<(), TransferError>>,
    hashing: Option<JoinHandle<Result<Checksum, TransferError>>>,
    made: mpsc::Receiver<Part>,
    read: Arc<AtomicU64>,
    stored: AtomicU64,
    before: Progress,
    halt: CancellationToken,
}

impl Drop for Making {
    fn drop(&mut self) {
        self.halt.cancel();
    }
}

impl Job {
    /// Whether the first part is sent last: it has the header.
    pub(super) fn keeps_first(&self) -> bool {
        matches!(self.format, ExportFormat::Qcow2(_))
    }

    /// Whether parts are not held: those of a raw disk have its bytes in its
    /// places, and long ones are read again as they are sent.
    fn rereads(&self) -> bool {
        let part = self.sizes.next(1, self.source.size());
        self.format == ExportFormat::Raw
            && self.sizes.is_of_object()
            && part > self.options.held_part
            && part < self.source.size()
    }

    fn workers(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        // While one waits for the disk, another packs.
        self.options
            .workers
            .unwrap_or(2 * cores)
            .clamp(1, MOST_WORKERS)
    }

    /// Begins to make the parts; only the first one, where no more is wanted.
    pub(super) fn make(&self, start: Start, only_first: bool) -> Making {
        let workers = self.workers();
        let halt = CancellationToken::new();
        let (sender, made) = mpsc::channel(1);
        let (lane, hashing) = match self.digest && !only_first {
            true => {
                let (lane, hashing) = lane(start.digest.as_ref());
                (Some(lane), Some(hashing))
            }
            false => (None, None),
        };
        let hashing = hashing.map(|hashing| {
            let halt = halt.clone();
            tokio::task::spawn_blocking(move || hashing.run(&halt))
        });
        let at = start.behind.as_ref().map_or(0, |behind| behind.at);
        let read = Arc::new(AtomicU64::new(start.before.received));
        let held = match self.rereads() {
            true => PIECE as u64,
            false => self.sizes.next(1, self.source.size()),
        };
        let slots = at_once(held, self.keeps_first(), self.options.memory_budget);
        let way = Way {
            sizes: self.sizes,
            keeps_first: self.keeps_first(),
            rereads: self.rereads(),
            only_first,
            size: self.source.size(),
            interval: self.options.checkpoint_interval,
            read: Arc::clone(&read),
            slots: Arc::new(Semaphore::new(slots)),
            most: slots as u32,
            made: sender,
            runtime: Handle::current(),
            halt: halt.clone(),
        };
        let parts = Parts::new(way, lane, start.behind);
        let image = Image::new(self.format, self.source.size(), parts, start.layout);
        // Two for each worker: one is packed while another waits for its turn.
        let buffers = (2 * workers + 2) * buffer_size(self.format);
        let least = (workers + 1) * buffer_size(self.format);
        let memory = Memory::new(buffers.min(self.options.memory_budget / 3).max(least));
        let course = Arc::new(Course::new(
            Arc::clone(&self.source),
            self.format,
            memory,
            image,
            at,
            Workers {
                count: workers,
                read: Arc::clone(&read),
                halt: halt.clone(),
            },
        ));
        let mut working = JoinSet::new();
        for _ in 0..workers {
            let course = Arc::clone(&course);
            working.spawn_blocking(move || course.work());
        }
        Making {
            job: self.clone(),
            course,
            working,
            hashing,
            made,
            read,
            stored: AtomicU64::new(0),
            before: start.before,
            halt,
        }
    }
}

impl Making {
    /// How far it is.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            total: self.job.source.size(),
            done: self.course.done(),
            received: self.read.load(Ordering::Relaxed),
            written: self.before.written + self.stored.load(Ordering::Relaxed),
        }
    }

    /// Stores all parts as they are made; the one that is all there is, if it
    /// is one. When this returns, nothing is still running.
    pub(super) async fn drive<T: Target>(
        &mut self,
        target: &Arc<T>,
        cancel: &CancellationToken,
    ) -> Result<Option<Part>, TransferError> {
        let mut storing: JoinSet<Result<u64, TransferError>> = JoinSet::new();
        let mut ticker = tokio::time::interval(self.job.options.progress_interval);
        ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut result = Ok(());
        let mut all = None;
        let mut open = true;
        while open || !self.working.is_empty() || !storing.is_empty() {
            let ended = tokio::select! {
                biased;
                () = cancel.cancelled(), if result.is_ok() => Err(TransferError::Cancelled),
                Some(joined) = self.working.join_next() => {
                    joined.unwrap_or(Err(TransferError::Worker))
                }
                Some(joined) = storing.join_next() => match joined {
                    Ok(stored) => stored.map(|length| {
                        self.stored.fetch_add(length, Ordering::Relaxed);
                    }),
                    // Given up after another error.
                    Err(error) if error.is_cancelled() => Ok(()),
                    Err(_) => Err(TransferError::Worker),
                },
                part = self.made.recv(), if open => {
                    match part {
                        None => open = false,
                        Some(_) if result.is_err() => {}
                        Some(part) if part.is_all => all = Some(part),
                        Some(part) => {
                            let target = Arc::clone(target);
                            storing.spawn(async move {
                                let length = part.length();
                                target.store(part).await.map(|()| length)
                            });
                        }
                    }
                    Ok(())
                }
                _ = ticker.tick() => {
                    self.job.observer.progress(self.progress());
                    Ok(())
                }
            };
            let Err(error) = ended else { continue };
            // Those that end for another's error say that they were told to.
            if result.is_ok() || matches!(result, Err(TransferError::Cancelled)) {
                let is_asked = cancel.is_cancelled();
                result = Err(if is_asked {
                    TransferError::Cancelled
                } else {
                    error
                });
            }
            self.halt.cancel();
            storing.abort_all();
            self.made.close();
        }
        if result.is_err() {
            // No more comes for the digest; that it has none says nothing new.
            self.course.stop();
            let _ = self.digest(cancel).await;
        }
        result.map(|()| all)
    }

    /// The digest of the disk's content, where one is taken. It may be behind
    /// what is stored by as many zeros as the disk ends with.
    pub(super) async fn digest(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<Option<Checksum>, TransferError> {
        let Some(mut hashing) = self.hashing.take() else {
            return Ok(None);
        };
        let digest = tokio::select! {
            biased;
            digest = &mut hashing => digest,
            () = cancel.cancelled() => {
                self.halt.cancel();
                hashing.await
            }
        };
        digest.unwrap_or(Err(TransferError::Worker)).map(Some)
    }

    /// The first part, where no more was wanted. When this returns, nothing
    /// is still running.
    pub(super) async fn first(
        mut self,
        cancel: &CancellationToken,
    ) -> Result<Option<(Vec<u8>, First)>, TransferError> {
        let mut result = Ok(());
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled(), if result.is_ok() => {
                    result = Err(TransferError::Cancelled);
                    self.halt.cancel();
                }
                joined = self.working.join_next() => match joined {
                    None => break,
                    // So it ends when it is had.
                    Some(Ok(Err(TransferError::Cancelled)) | Ok(Ok(()))) => {}
                    Some(ended) => {
                        let ended = ended.unwrap_or(Err(TransferError::Worker));
                        result = result.and(ended);
                    }
                },
            }
        }
        result.map(|()| self.course.take_first())
    }
}
