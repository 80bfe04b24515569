//! Running imports and watching them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hypercloud_transfer::{
    AddressPolicy, CancellationToken, Checkpoint, DiskFile, HttpAccess, HttpSource, ImportRequest,
    Imported, Observer, Options, Progress, SourceFacts, SourceSpec, TargetSpec, TransferError,
    import,
};

/// Remembers all it was told.
#[derive(Default)]
pub struct Watch {
    pub facts: Mutex<Option<SourceFacts>>,
    pub checkpoints: Mutex<Vec<Checkpoint>>,
    pub progress: Mutex<Vec<Progress>>,
    /// Cancelled at the checkpoint of this number.
    pub stop_at: Option<(usize, CancellationToken)>,
}

impl Observer for Watch {
    fn facts(&self, facts: &SourceFacts) {
        *self.facts.lock().unwrap() = Some(facts.clone());
    }

    fn progress(&self, progress: Progress) {
        self.progress.lock().unwrap().push(progress);
    }

    fn checkpoint(&self, checkpoint: &Checkpoint) -> std::io::Result<()> {
        let mut checkpoints = self.checkpoints.lock().unwrap();
        checkpoints.push(checkpoint.clone());
        if let Some((number, token)) = &self.stop_at
            && checkpoints.len() >= *number
        {
            token.cancel();
        }
        Ok(())
    }
}

/// Options for tests: loopback allowed, no long waits. What is silent for a
/// moment on a busy machine is no stall.
pub fn options() -> Options {
    Options {
        address_policy: AddressPolicy::Any,
        backoff_initial: std::time::Duration::from_millis(5),
        backoff_limit: std::time::Duration::from_millis(50),
        stall_timeout: std::time::Duration::from_secs(10),
        progress_interval: std::time::Duration::from_millis(10),
        ..Options::default()
    }
}

/// The same where what stalls is to be found out.
pub fn impatient() -> Options {
    Options {
        stall_timeout: std::time::Duration::from_millis(500),
        ..options()
    }
}

pub fn file(directory: &Path) -> TargetSpec {
    TargetSpec::DiskFile(DiskFile {
        directory: directory.into(),
        name: "disk.img".into(),
        owner: None,
        mode: 0o660,
    })
}

pub fn local(path: &Path) -> SourceSpec {
    SourceSpec::File(PathBuf::from(path))
}

pub fn http(url: &str) -> SourceSpec {
    SourceSpec::Http(HttpSource::open(url.parse().unwrap()))
}

/// A source that shows something, or trusts somebody.
pub fn http_with(url: &str, access: HttpAccess) -> SourceSpec {
    SourceSpec::Http(HttpSource {
        url: url.parse().unwrap(),
        access,
    })
}

pub fn request(source: SourceSpec, target: TargetSpec) -> ImportRequest {
    ImportRequest::new(source, target)
}

pub async fn run(
    source: SourceSpec,
    target: TargetSpec,
    options: &Options,
) -> Result<Imported, TransferError> {
    import(
        request(source, target),
        options,
        Arc::new(()),
        CancellationToken::new(),
    )
    .await
}
