//! `image probe`, `image import` and `image export`: from arguments to the
//! engine and back.

mod export;

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use hypercloud_transfer::{
    AddressPolicy, CancellationToken, Checkpoint, DiskFile, ImportRequest, Observer, Options,
    Progress, ProxySettings, Side, SourceFacts, SpacePolicy, TargetSpec, TransferError, import,
    probe,
};

pub(crate) use self::export::ImageExportArguments;
use crate::arguments::{ImageCommand, ImportArguments, ProbeArguments};
use crate::journal::Journal;
use crate::report::Reporter;
use crate::source::SourceUsage;
use crate::stop::stop_asked;

/// Why a command did not get as far as the engine, or what that said.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The target's path names nothing that could be written.
    #[error("{0} is no name for a file")]
    NoFileName(String),
    /// An option does not go with the source.
    #[error(transparent)]
    Source(#[from] SourceUsage),
    /// Something is there, and may not be lost.
    #[error("{0} exists: name another file, or say --overwrite")]
    Exists(String),
    /// The bytes of a disk are not compressed.
    #[error("a raw disk is not compressed: leave --compression out, or say --format qcow2")]
    Compressed,
    /// The engine's.
    #[error("{}", .0.message())]
    Transfer(#[from] TransferError),
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::NoFileName(_) | Self::Source(_) | Self::Exists(_) | Self::Compressed => 2,
            Self::Transfer(error) => match error.side() {
                Side::Cancelled => 1,
                Side::Refused => 3,
                Side::Source => 4,
                Side::Target => 5,
            },
        }
    }

    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NoFileName(_) => "InvalidTargetName",
            Self::Source(SourceUsage::Misplaced { .. } | SourceUsage::NotForFiles(_)) => {
                "MisplacedOption"
            }
            Self::Compressed => "MisplacedOption",
            Self::Source(SourceUsage::Certificates(..)) => "InvalidAuthorities",
            Self::Exists(_) => "TargetExists",
            Self::Transfer(error) => error.reason(),
        }
    }
}

pub(crate) async fn run(command: ImageCommand) -> ExitCode {
    let (reporter, result) = match command {
        ImageCommand::Probe(arguments) => {
            let reporter = Arc::new(Reporter::new(arguments.shown.output));
            let result = run_probe(arguments, &reporter).await;
            (reporter, result)
        }
        ImageCommand::Import(arguments) => {
            let reporter = Arc::new(Reporter::new(arguments.shown.output));
            let result = run_import(arguments, &reporter).await;
            (reporter, result)
        }
        ImageCommand::Export(arguments) => {
            let reporter = Arc::new(Reporter::new(arguments.shown.output));
            let result = export::run(arguments, &reporter).await;
            (reporter, result)
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            reporter.failed(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Who runs this may ask any address, and knows how much room there is.
fn options() -> Options {
    Options {
        address_policy: AddressPolicy::Any,
        space_policy: SpacePolicy::Sparse,
        keep_partial: false,
        proxies: ProxySettings::from_environment(),
        ..Options::default()
    }
}

async fn run_probe(arguments: ProbeArguments, reporter: &Reporter) -> Result<(), Failure> {
    let options = Options {
        measure: arguments.measure,
        ..options()
    };
    let facts = probe(&arguments.source.spec()?, &options).await?;
    reporter.probed(&facts);
    Ok(())
}

async fn run_import(arguments: ImportArguments, reporter: &Arc<Reporter>) -> Result<(), Failure> {
    let source = arguments.source.spec()?;
    let target = target(&arguments.target, arguments.overwrite)?;
    let journal = match arguments.resume {
        true => Some(Journal::of_import(&arguments.target).map_err(TransferError::Journal)?),
        false => None,
    };
    let request = ImportRequest {
        format: arguments.format.declared(),
        checksum: arguments.checksum,
        preallocation: arguments.preallocate,
        resume: journal.as_ref().and_then(Journal::load),
        ..ImportRequest::new(source, target)
    };
    let options = Options {
        connections: arguments.connections,
        keep_partial: arguments.resume,
        ..options()
    };
    let cancel = CancellationToken::new();
    let stopper = tokio::spawn(stop(cancel.clone()));
    let course = Course {
        reporter: Arc::clone(reporter),
        journal: journal.clone(),
    };
    let imported = import(request, &options, Arc::new(course), cancel).await;
    stopper.abort();
    let is_over = match &imported {
        Ok(_) => true,
        Err(error) => !error.is_retryable() && error.side() != Side::Cancelled,
    };
    if let Some(journal) = journal.filter(|_| is_over) {
        journal.remove();
    }
    reporter.imported(&imported?);
    Ok(())
}

/// Shows an import's course, and keeps where it got to.
struct Course {
    reporter: Arc<Reporter>,
    journal: Option<Journal<Checkpoint>>,
}

impl Observer for Course {
    fn facts(&self, facts: &SourceFacts) {
        self.reporter.facts(facts);
    }

    fn progress(&self, progress: Progress) {
        self.reporter.progress(progress);
    }

    fn checkpoint(&self, checkpoint: &Checkpoint) -> std::io::Result<()> {
        match &self.journal {
            Some(journal) => journal.save(checkpoint),
            None => Ok(()),
        }
    }

    fn verifying(&self) {
        self.reporter.verifying();
    }
}

/// Cancels at the first sign that the user wants to stop.
async fn stop(cancel: CancellationToken) {
    stop_asked().await;
    cancel.cancel();
}

/// The permission bits a new file has, before the process's mask.
const MODE: u32 = 0o666;

fn target(path: &Path, overwrite: bool) -> Result<TargetSpec, Failure> {
    let kind = std::fs::metadata(path).map(|metadata| metadata.file_type());
    if kind.is_ok_and(|kind| kind.is_block_device()) {
        return Ok(TargetSpec::BlockDevice(path.into()));
    }
    let shown = path.display().to_string();
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .filter(|_| !shown.ends_with('/'))
        .ok_or_else(|| Failure::NoFileName(shown.clone()))?;
    if !overwrite && std::fs::symlink_metadata(path).is_ok() {
        return Err(Failure::Exists(shown));
    }
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    Ok(TargetSpec::DiskFile(DiskFile {
        directory: directory.into(),
        name: name.to_owned(),
        owner: None,
        mode: MODE & !mask(),
    }))
}

/// The process's file mode mask. It can only be read by setting it; nothing
/// else runs yet that would notice.
fn mask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    mask.bits()
}
