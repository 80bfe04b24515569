//! `image export`: a disk of this machine becomes an object or a file.
//!
//! What an export stored of an object that is not complete goes with it,
//! unless it is kept for another one to go on with.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use hypercloud_transfer::{
    CancellationToken, ExportCheckpoint, ExportFormat, ExportObserver, ExportRequest, ExportTarget,
    Options, Progress, RawDisk, Side, StoredObject, discard_upload, export,
};

use super::{Failure, options, stop};
use crate::arguments::{Compression, ExportKind, Shown};
use crate::journal::Journal;
use crate::report::Reporter;
use crate::source::{ObjectName, SourceUsage, StoreArguments, certificates};

/// Longest time that is spent on discarding what is stored.
const DISCARD_LIMIT: Duration = Duration::from_secs(20);

#[derive(Debug, Args)]
pub(crate) struct ImageExportArguments {
    /// The disk: a block device or a raw file. Its bytes are a guest's, and
    /// mean nothing
    disk: PathBuf,
    /// What it becomes: s3://BUCKET/KEY with the key as it is, or a file. It
    /// appears only when it is complete
    #[arg(value_parser = Destination::parse)]
    target: Destination,
    /// What it is to be
    #[arg(long, value_enum, default_value_t = ExportKind::Qcow2)]
    format: ExportKind,
    /// How the clusters of a qcow2 are compressed; zlib where nothing is said
    #[arg(long, value_enum)]
    compression: Option<Compression>,
    /// Replace the target if it exists
    #[arg(long)]
    overwrite: bool,
    /// Tell the SHA-256 of the disk's content, too
    #[arg(long)]
    digest: bool,
    /// Go on where an earlier export with --resume was interrupted, and keep
    /// what a later one needs to go on: its parts stay in the store meanwhile
    #[arg(long)]
    resume: bool,
    /// Trust the authorities in this file of certificates (PEM) as well
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

/// Where a disk goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Destination {
    Object(ObjectName),
    Path(PathBuf),
}

impl Destination {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once("://") {
            Some(("s3", _)) => ObjectName::parse(text).map(Self::Object),
            Some((scheme, _)) => Err(format!("{scheme} is not supported, only s3 and paths")),
            None => Ok(Self::Path(text.into())),
        }
    }
}

/// Does what the arguments say.
pub(super) async fn run(
    arguments: ImageExportArguments,
    reporter: &Arc<Reporter>,
) -> Result<(), Failure> {
    let format = format(arguments.format, arguments.compression)?;
    let source = disk(&arguments.disk)?;
    let shown = match &arguments.target {
        Destination::Object(object) => object.to_string(),
        Destination::Path(path) => path.display().to_string(),
    };
    let (resume, overwrite, digest) = (arguments.resume, arguments.overwrite, arguments.digest);
    let target = target(arguments)?;
    let object = match &target {
        ExportTarget::Object(object) => Some(object.clone()),
        ExportTarget::File(_) => None,
    };
    let journal = object.as_ref().filter(|_| resume).map(Journal::of_export);
    let course = Arc::new(Course {
        reporter: Arc::clone(reporter),
        journal: journal.clone(),
        upload: Mutex::default(),
    });
    let request = ExportRequest {
        source,
        target,
        format,
        overwrite,
        digest,
        resume: journal.as_ref().and_then(Journal::load),
    };
    course.note(request.resume.as_ref());
    let options = options();
    let cancel = CancellationToken::new();
    let stopper = tokio::spawn(stop(cancel.clone()));
    let observer: Arc<Course> = Arc::clone(&course);
    let exported = export(request, &options, observer, cancel).await;
    stopper.abort();
    let goes_on = match &exported {
        Ok(_) => false,
        Err(error) => resume && (error.is_retryable() || error.side() == Side::Cancelled),
    };
    if !goes_on {
        if let (Some(object), Err(_)) = (&object, &exported) {
            course.discard(object, &options).await;
        }
        if let Some(journal) = journal {
            journal.remove();
        }
    }
    reporter.exported(&shown, &exported?);
    Ok(())
}

/// Shows an export's course, and keeps where it got to.
struct Course {
    reporter: Arc<Reporter>,
    journal: Option<Journal<ExportCheckpoint>>,
    /// The upload that may have parts in the store.
    upload: Mutex<Option<String>>,
}

impl Course {
    fn note(&self, checkpoint: Option<&ExportCheckpoint>) {
        let upload = checkpoint.and_then(ExportCheckpoint::upload_id);
        *self.upload.lock().unwrap_or_else(PoisonError::into_inner) = upload.map(str::to_owned);
    }

    /// Removes what is stored, and says so where that cannot be done.
    async fn discard(&self, object: &StoredObject, options: &Options) {
        let upload = self
            .upload
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(upload) = upload else { return };
        let discarding = discard_upload(object, &upload, options);
        let words = match tokio::time::timeout(DISCARD_LIMIT, discarding).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.message(),
            Err(_) => "the store does not answer".to_owned(),
        };
        self.reporter.left(&upload, &words);
    }
}

impl ExportObserver for Course {
    fn progress(&self, progress: Progress) {
        self.reporter.exporting(progress);
    }

    fn checkpoint(&self, checkpoint: &ExportCheckpoint) -> io::Result<()> {
        self.note(Some(checkpoint));
        match &self.journal {
            Some(journal) => journal.save(checkpoint),
            None => Ok(()),
        }
    }

    fn verifying(&self) -> io::Result<()> {
        self.reporter.completing();
        Ok(())
    }
}

fn format(kind: ExportKind, compression: Option<Compression>) -> Result<ExportFormat, Failure> {
    match (kind, compression) {
        (ExportKind::Qcow2, None) => Ok(ExportFormat::Qcow2(Compression::Zlib.of_engine())),
        (ExportKind::Qcow2, Some(compression)) => Ok(ExportFormat::Qcow2(compression.of_engine())),
        (ExportKind::Raw, None | Some(Compression::None)) => Ok(ExportFormat::Raw),
        (ExportKind::Raw, Some(_)) => Err(Failure::Compressed),
    }
}

/// The disk that is meant. Links on the way are the user's own.
fn disk(path: &Path) -> Result<RawDisk, Failure> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let kind = std::fs::metadata(&path).map(|metadata| metadata.file_type());
    if kind.is_ok_and(|kind| kind.is_block_device()) {
        return Ok(RawDisk::BlockDevice(path));
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Failure::NoFileName(path.display().to_string()))?;
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    Ok(RawDisk::DiskFile {
        directory: directory.into(),
        name: name.to_owned(),
    })
}

fn target(arguments: ImageExportArguments) -> Result<ExportTarget, Failure> {
    match arguments.target {
        Destination::Object(object) => {
            let authorities = arguments.ca.map(certificates).transpose()?;
            let store = arguments.store.store(authorities);
            Ok(ExportTarget::Object(object.in_store(store)))
        }
        Destination::Path(path) => {
            let others = [
                (arguments.resume, "--resume"),
                (arguments.ca.is_some(), "--ca"),
            ];
            let others = others
                .into_iter()
                .filter_map(|(used, option)| used.then_some(option));
            if let Some(option) = others.chain(arguments.store.used()).next() {
                return Err(SourceUsage::NotForFiles(option).into());
            }
            let shown = path.display().to_string();
            if path.file_name().is_none() || shown.ends_with('/') {
                return Err(Failure::NoFileName(shown));
            }
            if !arguments.overwrite && std::fs::symlink_metadata(&path).is_ok() {
                return Err(Failure::Exists(shown));
            }
            Ok(ExportTarget::File(path))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_told_apart() {
        let object = Destination::parse("s3://images/a b/c");
        assert!(matches!(object, Ok(Destination::Object(name)) if name.key == "a b/c"));
        let path = Destination::parse("some/disk.qcow2");
        assert_eq!(path, Ok(Destination::Path("some/disk.qcow2".into())));
        for wrong in ["https://store.test/a", "s3://images", "s3:///a"] {
            assert!(Destination::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_a_qcow2_is_compressed() {
        let zlib = ExportFormat::Qcow2(Compression::Zlib.of_engine());
        assert!(matches!(format(ExportKind::Qcow2, None), Ok(found) if found == zlib));
        assert!(matches!(
            format(ExportKind::Raw, Some(Compression::None)),
            Ok(ExportFormat::Raw)
        ));
        let refused = format(ExportKind::Raw, Some(Compression::Zstd));
        assert!(matches!(refused, Err(Failure::Compressed)));
    }
}
