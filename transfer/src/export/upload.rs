//! The upload that parts go to, and the checkpoints of it.
//!
//! The order is: an upload is begun, and named in a checkpoint; only then is
//! a part sent. A place is in a checkpoint when the store has answered for
//! every part before it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::checkpoint::{ExportCheckpoint, Place, Whole};
use super::ledger::{Ledger, Settled};
use super::making::{Job, Target};
use super::parts::{Part, Passed};
use super::request::ExportObserver;
use crate::error::TransferError;
use crate::object_store::{Begun, Found, Payload, Sent, Stretch, Writer};
use crate::observer::Progress;
use crate::raw_disk::SourceDisk;

/// How long a store that is just beginning an upload is waited for, when the
/// export was cancelled: else nobody would know of it.
const PATIENCE: Duration = Duration::from_millis(700);

/// One object on its way to the store.
pub(super) struct Upload {
    pub(super) writer: Arc<Writer>,
    source: Arc<SourceDisk>,
    observer: Arc<dyn ExportObserver>,
    begun: Mutex<Option<Begun>>,
    /// A beginning that is not to be interrupted.
    beginning: Mutex<Option<JoinHandle<Result<Begun, TransferError>>>>,
    ledger: parking_lot::Mutex<Ledger>,
    /// The last checkpoint, which is held while one is taken.
    last: Arc<Mutex<ExportCheckpoint>>,
    /// Checkpoints that are being kept, which nothing interrupts, and what is
    /// being read.
    keeping: TaskTracker,
}

impl Upload {
    /// Goes on where `checkpoint` is, with the parts that are stored before
    /// part `next`.
    pub(super) fn new(
        writer: Arc<Writer>,
        job: &Job,
        checkpoint: ExportCheckpoint,
        next: u32,
        stored: Vec<Sent>,
    ) -> Self {
        let begun = checkpoint.upload.as_ref().map(|upload| Begun {
            id: upload.id.clone(),
            checksums: upload.checksums,
        });
        Self {
            writer,
            source: Arc::clone(&job.source),
            observer: Arc::clone(&job.observer),
            begun: Mutex::new(begun),
            beginning: Mutex::default(),
            ledger: parking_lot::Mutex::new(Ledger::new(next, stored)),
            last: Arc::new(Mutex::new(checkpoint)),
            keeping: TaskTracker::new(),
        }
    }

    /// Begins an upload and writes down that it is there. Nothing interrupts
    /// it in between.
    fn start(&self) -> JoinHandle<Result<Begun, TransferError>> {
        let writer = Arc::clone(&self.writer);
        let observer = Arc::clone(&self.observer);
        let last = Arc::clone(&self.last);
        let keeping = self.keeping.clone();
        tokio::spawn(async move {
            let mut last = last.lock().await;
            let begun = writer.begin(&last.token).await;
            let begun = begun.map_err(TransferError::from_store)?;
            let mut checkpoint = last.clone();
            checkpoint.upload = Some(super::checkpoint::Upload {
                id: begun.id.clone(),
                checksums: begun.checksums,
            });
            checkpoint.place = None;
            let kept = keeping.spawn(keep(observer, checkpoint)).await;
            match kept.unwrap_or(Err(TransferError::Worker)) {
                Ok(checkpoint) => *last = checkpoint,
                Err(error) => {
                    // Nobody else knows of it.
                    if let Err(left) = writer.abort(&begun.id).await {
                        tracing::warn!(error = %left, "giving up an upload failed");
                    }
                    return Err(error);
                }
            }
            Ok(begun)
        })
    }

    /// The upload, begun if it was not.
    async fn begun(&self) -> Result<Begun, TransferError> {
        let mut begun = self.begun.lock().await;
        if let Some(begun) = begun.as_ref() {
            return Ok(begun.clone());
        }
        let mut beginning = self.beginning.lock().await;
        let task = beginning.get_or_insert_with(|| self.start());
        let result = task.await.unwrap_or(Err(TransferError::Worker));
        *beginning = None;
        let result = result?;
        *begun = Some(result.clone());
        Ok(result)
    }

    /// Waits for an upload that is just being begun. What is left is known to
    /// the observer, or aborted, or, after a store that is silent, nobody's.
    pub(super) async fn settle(&self) {
        let mut beginning = self.beginning.lock().await;
        if let Some(task) = beginning.as_mut() {
            match tokio::time::timeout(PATIENCE, &mut *task).await {
                Ok(Ok(Ok(begun))) => *self.begun.lock().await = Some(begun),
                Ok(_) => {}
                Err(_) => task.abort(),
            }
        }
        *beginning = None;
        self.keeping.close();
        self.keeping.wait().await;
    }

    /// Its id, where one was begun.
    pub(super) async fn id(&self) -> Option<String> {
        self.begun
            .lock()
            .await
            .as_ref()
            .map(|begun| begun.id.clone())
    }

    /// The object's size, when all parts are stored.
    pub(super) fn size(&self) -> u64 {
        self.ledger.lock().size()
    }

    /// Gives up the upload, if one was begun.
    pub(super) async fn abort(&self) {
        let Some(id) = self.id().await else { return };
        if let Err(error) = self.writer.abort(&id).await {
            tracing::warn!(error = %error, "giving up an upload failed");
        }
    }

    /// Takes a checkpoint where a place was reached. One that is being taken
    /// is waited for, so that they do not overtake each other.
    async fn save(self: Arc<Self>) -> Result<(), TransferError> {
        let mut last = self.last.lock().await;
        let settled = self.ledger.lock().settle();
        let Some(settled) = settled else {
            return Ok(());
        };
        let Settled {
            next_part,
            parts,
            mark,
            stored,
        } = settled;
        let digest = match mark.digest {
            None => None,
            // The digest ended early only when all of it did.
            Some(mark) => Some(mark.await.map_err(|_| TransferError::Cancelled)?),
        };
        let mut checkpoint = last.clone();
        checkpoint.progress = Progress {
            total: checkpoint.size,
            done: mark.at,
            received: mark.read,
            written: stored,
        };
        let observer = Arc::clone(&self.observer);
        *last = blocking(move || {
            let state = mark.layout.map(|layout| STANDARD.encode(layout.state()));
            checkpoint.place = Some(Place {
                next_part,
                parts,
                state,
                at: mark.at,
                first: mark.first,
                digest,
            });
            let kept = observer.checkpoint(&checkpoint);
            kept.map(|()| checkpoint).map_err(TransferError::Journal)
        })
        .await?;
        Ok(())
    }

    /// Writes down that all parts are stored, and what they make.
    async fn save_whole(&self, whole: Whole, progress: Progress) -> Result<(), TransferError> {
        let mut last = self.last.lock().await;
        let mut checkpoint = last.clone();
        checkpoint.place = None;
        checkpoint.whole = Some(whole);
        checkpoint.progress = progress;
        *last = keep(Arc::clone(&self.observer), checkpoint).await?;
        Ok(())
    }

    /// Makes the object of the parts that are stored, or of `all`, if that is
    /// all there is.
    pub(super) async fn complete(
        &self,
        all: Option<Part>,
        digest: Option<crate::checksum::Checksum>,
        progress: Progress,
        only_new: bool,
    ) -> Result<Found, TransferError> {
        let token = self.last.lock().await.token.clone();
        let Some(all) = all else {
            let (parts, size) = {
                let ledger = self.ledger.lock();
                (ledger.parts(), ledger.size())
            };
            let whole = Whole {
                size,
                parts: parts.len() as u32,
                digest,
            };
            self.save_whole(whole, progress).await?;
            let upload = self.begun().await?;
            return complete(&self.writer, &upload, &parts, &token, only_new).await;
        };
        // One that was begun for more is of no use.
        self.abort().await;
        *self.begun.lock().await = None;
        self.last.lock().await.upload = None;
        let whole = Whole {
            size: all.bytes.len() as u64,
            parts: 0,
            digest,
        };
        self.save_whole(whole, progress).await?;
        let only_new = judge_free(&self.writer, &token, only_new).await?;
        let put = self
            .writer
            .put(Bytes::from(all.bytes), &token, only_new)
            .await;
        own(&self.writer, &token, put).await
    }
}

/// Makes an object of parts, unless one is there that is not to be replaced.
pub(super) async fn complete(
    writer: &Writer,
    upload: &Begun,
    parts: &[Sent],
    token: &str,
    only_new: bool,
) -> Result<Found, TransferError> {
    // Some stores do not know the condition.
    let only_new = judge_free(writer, token, only_new).await?;
    let completed = writer.complete(upload, parts, token, only_new).await;
    own(writer, token, completed).await
}

/// Whether no object is there, where that matters, or one of the same owner;
/// whether there is to be none still.
pub(super) async fn judge_free(
    writer: &Writer,
    token: &str,
    only_new: bool,
) -> Result<bool, TransferError> {
    if !only_new {
        return Ok(false);
    }
    match writer.find().await.map_err(TransferError::from_store)? {
        None => Ok(true),
        Some(found) if found.mark.as_deref() == Some(token) || writer.owns(&found) => Ok(false),
        Some(_) => Err(TransferError::from_store(writer.exists())),
    }
}

/// What came of it. A request whose answer was lost may have done it: then
/// the object that is there is this export's own.
async fn own(
    writer: &Writer,
    token: &str,
    result: Result<Found, crate::error::SourceError>,
) -> Result<Found, TransferError> {
    let error = match result {
        Ok(found) => return Ok(found),
        Err(error) => error,
    };
    let error = TransferError::from_store(error);
    if matches!(error.reason(), "NoSuchUpload" | "ObjectExists" | "NotFound")
        && let Ok(Some(found)) = writer.find().await
        && found.mark.as_deref() == Some(token)
    {
        return Ok(found);
    }
    Err(error)
}

/// Has a checkpoint kept, durably.
pub(super) async fn keep(
    observer: Arc<dyn ExportObserver>,
    checkpoint: ExportCheckpoint,
) -> Result<ExportCheckpoint, TransferError> {
    blocking(move || {
        let kept = observer.checkpoint(&checkpoint);
        kept.map(|()| checkpoint).map_err(TransferError::Journal)
    })
    .await
}

/// Runs what blocks.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
) -> Result<T, TransferError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(TransferError::Worker))
}

#[async_trait]
impl Target for Upload {
    async fn store(self: Arc<Self>, part: Part) -> Result<(), TransferError> {
        let upload = self.begun().await?;
        let Part {
            number,
            start,
            bytes,
            passed,
            mark,
            slot,
            ..
        } = part;
        let part = match passed {
            None => Payload::Held(Bytes::from(bytes)),
            Some(Passed { length, sum }) => Payload::Stretch(Stretch {
                source: Arc::clone(&self.source),
                start,
                length,
                sum,
                readers: self.keeping.clone(),
            }),
        };
        let sent = self.writer.send(&upload, number, &part).await;
        drop((part, slot));
        let sent = sent.map_err(TransferError::from_store)?;
        self.ledger.lock().add(sent, mark);
        let saving = self.keeping.spawn(Arc::clone(&self).save());
        saving.await.unwrap_or(Err(TransferError::Worker))
    }
}
