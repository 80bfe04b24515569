//! One copy, from a raw disk of this machine to another.
//!
//! Both disks are raw, whatever their first bytes say: a volume's content is
//! a guest's, and nothing in it is interpreted. Several workers each take
//! the next piece of the disk, so pieces begin in order and end in any order.
//!
//! Invariants: what the source does not hold reads as zeros on the target
//! afterwards, also behind the source's end; what is zeros is deallocated
//! rather than written; a [`CopyCheckpoint`] is handed out only after the
//! target was flushed.

mod checkpoint;
mod differences;
mod pieces;
mod request;
mod run;
mod worker;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use self::checkpoint::CopyCheckpoint;
pub use self::request::{Copied, CopyMode, CopyObserver, CopyRequest};
use self::run::{Run, Settings};
use crate::error::{TargetError, TransferError};
use crate::options::Options;
use crate::raw_disk::SourceDisk;
use crate::sink::{Needs, Target};

/// Places on the disks are multiples of this, but for their ends. It suits
/// every device's blocks, and is what differences are told in.
const BLOCK: usize = 4096;

/// Both sides, opened and judged.
struct Opened {
    source: SourceDisk,
    target: Target,
    /// Whether what the target holds is compared, rather than overwritten.
    compares: bool,
    /// The checkpoint, if it is good for these two.
    resume: Option<CopyCheckpoint>,
}

/// See [`crate::copy`].
pub(crate) async fn copy(
    request: CopyRequest,
    options: &Options,
    observer: Arc<dyn CopyObserver>,
    cancel: CancellationToken,
) -> Result<Copied, TransferError> {
    let mode = request.mode;
    let opened = {
        let options = options.clone();
        blocking(move || open(request, &options)).await?
    };
    let Opened {
        source,
        target,
        compares,
        resume,
    } = opened;
    tracing::info!(
        size = source.size(),
        compares,
        resumed = resume.is_some(),
        "copy begins"
    );
    let run = Arc::new(Run::new(
        source,
        &target,
        Settings {
            mode,
            compares,
            options: options.clone(),
            observer: Arc::clone(&observer),
        },
        resume.as_ref(),
    ));
    let result = run::drive(&run, &cancel).await;
    let result = match result {
        Ok(()) => {
            observer.verifying();
            let run = Arc::clone(&run);
            blocking(move || Ok(run.source().judge_unchanged()?)).await
        }
        error => error,
    };
    let progress = run.progress();
    drop(run);
    let options = options.clone();
    blocking(move || {
        let completed = result.and_then(|()| Ok(target.complete()?));
        if let Err(error) = &completed {
            target.abandon(error, &options);
        }
        completed
    })
    .await?;
    observer.progress(progress);
    Ok(Copied { progress })
}

/// Opens both sides. Nothing is written to a target that cannot be used.
fn open(request: CopyRequest, options: &Options) -> Result<Opened, TransferError> {
    let CopyRequest {
        source,
        target: spec,
        mode,
        resume,
    } = request;
    let source = SourceDisk::open(&source)?;
    let needs = Needs {
        size: source.size(),
        alignment: BLOCK as u64,
        preallocation: false,
    };
    let resume = resume.filter(|checkpoint| checkpoint.is_of(&source, mode));
    let identity = resume.as_ref().map(CopyCheckpoint::target);
    if source.is_at(&spec.path()) {
        return Err(TargetError::IsSource(spec.path()).into());
    }
    if mode == CopyMode::Differences
        && let Some(target) = Target::open_in_place(&spec, needs, source.allocated(), options)?
    {
        return Ok(Opened {
            resume: resume.filter(|_| identity == Some(target.identity)),
            source,
            target,
            compares: true,
        });
    }
    // In a file that was just made there is nothing to compare.
    let (target, is_the_one) = Target::open(&spec, needs, options, identity)?;
    Ok(Opened {
        resume: resume.filter(|_| is_the_one),
        source,
        target,
        compares: false,
    })
}

/// Runs what blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
) -> Result<T, TransferError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(TransferError::Worker))
}
