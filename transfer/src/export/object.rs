//! An export to an object: where it begins, and how it ends.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hypercloud_disk::layout::Layout;
use rand::Rng;
use tokio_util::sync::CancellationToken;

use super::checkpoint::{ExportCheckpoint, LAYOUT, Place, Whole};
use super::ledger::fingerprint;
use super::making::{Job, Start};
use super::parts::Behind;
use super::request::{ExportFormat, Exported};
use super::upload::{Upload, blocking, complete, judge_free, keep};
use crate::checksum::{Algorithm, hex};
use crate::digest::Tap;
use crate::error::TransferError;
use crate::object_store::{Begun, Found, Sent, Writer};
use crate::observer::Progress;
use crate::request::StoredObject;

/// How long what is only tidy or nice to know may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// By so much the clocks of a store and of this machine may differ.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// What is left to do.
enum Rest {
    /// The object is there.
    Nothing(Found, Whole),
    /// All parts are there.
    Complete(Begun, Vec<Sent>, Whole),
    /// Everything, or what is behind a place.
    Make(Option<(Place, Vec<Sent>)>),
}

/// See [`crate::export`].
pub(super) async fn export(
    job: Job,
    object: &StoredObject,
    overwrite: bool,
    resume: Option<ExportCheckpoint>,
    cancel: &CancellationToken,
) -> Result<Exported, TransferError> {
    let writer = Writer::new(object, job.owner.clone(), &job.options).await;
    let writer = Arc::new(writer.map_err(TransferError::from_store)?);
    // Before anything else: nothing may fail when the object is there.
    let address = or_cancelled(cancel, async {
        writer.address().await.map_err(TransferError::from_store)
    })
    .await?;
    let (mut checkpoint, rest) = or_cancelled(cancel, prepare(&job, &writer, resume)).await?;
    let known = checkpoint.upload_id().map(str::to_owned);
    let result = match rest {
        Rest::Nothing(found, whole) => Ok((found, whole, checkpoint.progress)),
        Rest::Complete(upload, parts, whole) => {
            job.verify().await?;
            let completing = complete(&writer, &upload, &parts, &checkpoint.token, !overwrite);
            let completed = or_cancelled(cancel, completing).await;
            if let Err(error) = &completed {
                give_up(&writer, known.as_deref(), error).await;
            }
            completed.map(|found| (found, whole, checkpoint.progress))
        }
        Rest::Make(place) => {
            let free = judge_free(&writer, &checkpoint.token, !overwrite);
            if let Err(error) = or_cancelled(cancel, free).await {
                give_up(&writer, known.as_deref(), &error).await;
                return Err(error);
            }
            let behind = match place {
                None => None,
                Some((place, stored)) => behind(&job, place, &stored, cancel)
                    .await?
                    .map(|start| (start, stored)),
            };
            let (start, stored) = match behind {
                Some(behind) => behind,
                None => {
                    // Parts of before are replaced, or let go with the upload.
                    checkpoint.place = None;
                    checkpoint.progress = Progress::default();
                    (Start::default(), Vec::new())
                }
            };
            let checkpoint = keep(Arc::clone(&job.observer), checkpoint).await?;
            make(&job, &writer, checkpoint, start, stored, overwrite, cancel).await
        }
    };
    let (found, whole, progress) = result?;
    job.observer.progress(progress);
    // Ceph's gateway leaves it out where an object is made of parts.
    let is_told = found.etag.as_ref().is_some_and(|etag| !etag.is_empty());
    let etag = match is_told {
        true => found.etag,
        // Whoever may write need not be allowed to look.
        false => {
            let found = tokio::time::timeout(PATIENCE, writer.find()).await;
            let found = found.ok().and_then(Result::ok).flatten();
            found.and_then(|found| found.etag)
        }
    };
    Ok(Exported {
        progress,
        size: whole.size,
        virtual_size: job.source.size(),
        digest: whole.digest,
        etag,
        checksum: found.checksum,
        address: Some(address),
    })
}

/// Makes and stores what is left, and completes the object.
async fn make(
    job: &Job,
    writer: &Arc<Writer>,
    checkpoint: ExportCheckpoint,
    start: Start,
    stored: Vec<Sent>,
    overwrite: bool,
    cancel: &CancellationToken,
) -> Result<(Found, Whole, Progress), TransferError> {
    let first = if job.keeps_first() { 2 } else { 1 };
    let next = start.behind.as_ref().map_or(first, |behind| behind.number);
    let upload = Upload::new(Arc::clone(writer), job, checkpoint, next, stored);
    let upload = Arc::new(upload);
    let mut making = job.make(start, false);
    let result = async {
        let all = making.drive(&upload, cancel).await?;
        let digest = making.digest(cancel).await?;
        let mut progress = making.progress();
        progress.done = progress.total;
        progress.written += all.as_ref().map_or(0, |part| part.bytes.len() as u64);
        job.verify().await?;
        let size = all
            .as_ref()
            .map_or_else(|| upload.size(), |part| part.bytes.len() as u64);
        let completing = upload.complete(all, digest.clone(), progress, !overwrite);
        let found = or_cancelled(cancel, completing).await?;
        let whole = Whole {
            size,
            parts: 0,
            digest,
        };
        Ok((found, whole, progress))
    }
    .await;
    upload.settle().await;
    if let Err(error) = &result {
        give_up(writer, upload.id().await.as_deref(), error).await;
    }
    result
}

impl Job {
    /// All is stored: whether it is what the disk was, and is wanted.
    pub(super) async fn verify(&self) -> Result<(), TransferError> {
        let source = Arc::clone(&self.source);
        let state = self.state.clone();
        let observer = Arc::clone(&self.observer);
        blocking(move || {
            source.judge_state(state.as_deref())?;
            observer.verifying().map_err(TransferError::Journal)
        })
        .await
    }
}

/// Gives up the upload where its parts are of no more use: after an error
/// that is final, and where the store itself does not take them.
async fn give_up(writer: &Writer, upload: Option<&str>, error: &TransferError) {
    let is_cancelled = matches!(error, TransferError::Cancelled);
    let is_useless = matches!(
        error.reason(),
        "PartRefused" | "NoSuchUpload" | "SourceChanged"
    );
    if is_cancelled || (error.is_retryable() && !is_useless) {
        return;
    }
    let Some(id) = upload else { return };
    match tokio::time::timeout(PATIENCE, writer.abort(id)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = %error, "giving up an upload failed"),
        Err(_) => tracing::warn!("giving up an upload took too long"),
    }
}

async fn or_cancelled<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, TransferError>>,
) -> Result<T, TransferError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(TransferError::Cancelled),
        result = work => result,
    }
}

/// What a checkpoint says that says nothing yet.
fn fresh(job: &Job, target: String) -> ExportCheckpoint {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    ExportCheckpoint {
        layout: LAYOUT,
        format: job.format,
        digest: job.digest,
        size: job.source.size(),
        source: job.state.clone(),
        target,
        token: hex(&rand::rng().random::<[u8; 16]>()),
        since: since.unwrap_or_default().as_secs(),
        upload: None,
        place: None,
        whole: None,
        progress: Progress::default(),
    }
}

/// Looks at what an earlier export left in the store, and clears away what
/// cannot be used.
async fn prepare(
    job: &Job,
    writer: &Writer,
    resume: Option<ExportCheckpoint>,
) -> Result<(ExportCheckpoint, Rest), TransferError> {
    let new = fresh(job, writer.name());
    let Some(checkpoint) = resume.filter(|checkpoint| checkpoint.target == new.target) else {
        return Ok((new, Rest::Make(None)));
    };
    let failed = TransferError::from_store;
    let is_same = checkpoint.is_of(&new);
    let Some(upload) = checkpoint.upload.clone() else {
        if let Some(whole) = checkpoint.whole.clone().filter(|_| is_same) {
            if let Some(found) = find_own(writer, &checkpoint).await? {
                return Ok((checkpoint, Rest::Nothing(found, whole)));
            }
            return Ok((new, Rest::Make(None)));
        }
        let since = UNIX_EPOCH + Duration::from_secs(checkpoint.since);
        if let Err(error) = writer.sweep(since - SKEW).await {
            // Whoever may write need not be allowed to look.
            tracing::debug!(error = %error, "looking for uploads that were left failed");
        }
        return Ok((new, Rest::Make(None)));
    };
    let stored = writer.parts(&upload.id).await.map_err(failed)?;
    let begun = Begun {
        id: upload.id.clone(),
        checksums: upload.checksums,
    };
    let rest = match stored.filter(|_| is_same) {
        None => match checkpoint.whole.clone().filter(|_| is_same) {
            Some(whole) => find_own(writer, &checkpoint)
                .await?
                .map(|found| Rest::Nothing(found, whole)),
            None => None,
        },
        Some(stored) => rest(&checkpoint, begun, stored),
    };
    match rest {
        Some(rest) => Ok((checkpoint, rest)),
        None => {
            writer.abort(&upload.id).await.map_err(failed)?;
            Ok((new, Rest::Make(None)))
        }
    }
}

async fn find_own(
    writer: &Writer,
    checkpoint: &ExportCheckpoint,
) -> Result<Option<Found>, TransferError> {
    let found = writer.find().await.map_err(TransferError::from_store)?;
    Ok(found.filter(|found| found.mark.as_deref() == Some(checkpoint.token.as_str())))
}

/// What is left to do, given the parts that an upload has; `None` where they
/// are not what the checkpoint says.
fn rest(checkpoint: &ExportCheckpoint, upload: Begun, stored: Vec<Sent>) -> Option<Rest> {
    let is_complete = |parts: &[Sent]| {
        let mut parts = parts.iter();
        !upload.checksums || parts.all(|part| part.checksum.is_some())
    };
    if let Some(whole) = &checkpoint.whole {
        let size: u64 = stored.iter().map(|part| part.size).sum();
        let is_there = whole.size == size && stored.len() as u32 == whole.parts;
        return (is_there && is_complete(&stored))
            .then(|| Rest::Complete(upload, stored, whole.clone()));
    }
    let Some(place) = &checkpoint.place else {
        return Some(Rest::Make(None));
    };
    let first = if place.first.is_some() { 2 } else { 1 };
    let mut stored = stored;
    stored.retain(|part| (first..place.next_part).contains(&part.number));
    let is_there = fingerprint(stored.iter()) == place.parts;
    (is_there && is_complete(&stored)).then(|| Rest::Make(Some((place.clone(), stored))))
}

/// Goes back to a place: the first part is made again from the disk. `None`
/// where that gives another one, or the place is none.
async fn behind(
    job: &Job,
    place: Place,
    stored: &[Sent],
    cancel: &CancellationToken,
) -> Result<Option<Start>, TransferError> {
    let before: u64 = stored.iter().map(|part| part.size).sum();
    let start = before + place.first.as_ref().map_or(0, |first| first.length);
    let left = job.source.size().saturating_sub(place.at);
    let length = job.sizes.next(place.next_part, left);
    let layout = place.state.as_deref().and_then(|state| {
        let state = STANDARD.decode(state).ok()?;
        Layout::resume(&state, length).filter(|layout| layout.end() == start)
    });
    let is_place = match job.format {
        ExportFormat::Raw => place.at == start,
        ExportFormat::Qcow2(_) => layout.is_some() && place.first.is_some(),
    };
    // What the digest would leave out would count as zeros.
    let is_digest = !job.digest
        || place
            .digest
            .as_ref()
            .is_some_and(|mark| Tap::new(Algorithm::Sha256, Some(mark)).position() == place.at);
    if !is_place || !is_digest {
        return Ok(None);
    }
    let first = match &place.first {
        None => None,
        Some(expected) => {
            let made = job.make(Start::default(), true).first(cancel).await?;
            match made.filter(|(_, first)| first == expected) {
                Some((bytes, _)) => Some(bytes),
                None => return Ok(None),
            }
        }
    };
    Ok(Some(Start {
        behind: Some(Behind {
            number: place.next_part,
            start,
            first,
            kept: place.first,
            at: place.at,
        }),
        layout,
        digest: place.digest,
        before: Progress {
            written: before,
            ..Progress::default()
        },
    }))
}
