//! A node whose engine does nothing but what the test makes it do.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::engine::{CopyOrder, Engine, ExportOrder, Exported, ImportOrder, Imported, Observer};
use crate::job::board::{Change, Status};
use crate::job::runner::{Jobs, StartError};
use crate::job::spec::{
    Compression, CopySpec, ExportFormat, ExportSpec, ImportSpec, JobId, JobSpec,
};
use crate::job::state::{ExportedObject, Failure, Phase, Progress};
use crate::source::{Access, Facts, Format, HttpUrl, ObjectLocation, Secret, Source};
use crate::volume::{
    Absence, PodUid, PodVolume, Volume, VolumeError, VolumeMode, VolumeName, Volumes,
};

pub(super) const DEADLINE: Duration = Duration::from_secs(120);

/// One import that waits for the test to end it.
pub(super) struct Running {
    pub order: ImportOrder,
    pub observer: Arc<dyn Observer>,
    pub stop: CancellationToken,
    /// Dropping it makes the import panic.
    pub end: oneshot::Sender<Result<Imported, Failure>>,
}

/// One copy that waits for the test to end it.
pub(super) struct Copying {
    pub order: CopyOrder,
    pub observer: Arc<dyn Observer>,
    pub stop: CancellationToken,
    /// Dropping it makes the copy panic.
    pub end: oneshot::Sender<Result<Progress, Failure>>,
}

/// One export that waits for the test to end it.
pub(super) struct Exporting {
    pub order: ExportOrder,
    pub observer: Arc<dyn Observer>,
    pub stop: CancellationToken,
    /// Dropping it makes the export panic.
    pub end: oneshot::Sender<Result<Exported, Failure>>,
}

/// An upload that is to be discarded, and by whom; the test answers.
pub(super) struct Discarding {
    pub upload: String,
    pub access: Access,
    pub answer: oneshot::Sender<Result<(), Failure>>,
}

pub(super) struct Puppet {
    imports: mpsc::UnboundedSender<Running>,
    copies: mpsc::UnboundedSender<Copying>,
    exports: mpsc::UnboundedSender<Exporting>,
    discards: mpsc::UnboundedSender<Discarding>,
}

#[async_trait]
impl Engine for Puppet {
    async fn probe(&self, _: &Source, _: &Access) -> Result<Facts, Failure> {
        Ok(facts())
    }

    async fn import(
        &self,
        order: ImportOrder,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Imported, Failure> {
        let (end, ended) = oneshot::channel();
        self.imports
            .send(Running {
                order,
                observer,
                stop,
                end,
            })
            .unwrap();
        ended.await.expect("the test lets this import die")
    }

    async fn copy(
        &self,
        order: CopyOrder,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Progress, Failure> {
        let (end, ended) = oneshot::channel();
        let copying = Copying {
            order,
            observer,
            stop,
            end,
        };
        self.copies.send(copying).unwrap();
        ended.await.expect("the test lets this copy die")
    }

    async fn export(
        &self,
        order: ExportOrder,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Exported, Failure> {
        let (end, ended) = oneshot::channel();
        let exporting = Exporting {
            order,
            observer,
            stop,
            end,
        };
        self.exports.send(exporting).unwrap();
        ended.await.expect("the test lets this export die")
    }

    async fn discard_upload(
        &self,
        _: &ObjectLocation,
        access: &Access,
        upload: &str,
    ) -> Result<(), Failure> {
        let (answer, answered) = oneshot::channel();
        let discarding = Discarding {
            upload: upload.to_owned(),
            access: access.clone(),
            answer,
        };
        self.discards.send(discarding).unwrap();
        answered.await.expect("the test answers")
    }

    async fn presign(
        &self,
        object: &ObjectLocation,
        _: &Access,
        _: Duration,
    ) -> Result<Secret, Failure> {
        Ok(Secret::new(object.to_string()))
    }
}

/// Volumes that are there, but for those called "missing" and "exchanged".
pub(super) struct Imagined;

#[async_trait]
impl Volumes for Imagined {
    async fn locate(&self, volume: &PodVolume) -> Result<Volume, VolumeError> {
        match volume.volume_name.as_str() {
            "missing" => Err(VolumeError::NotFound {
                volume: volume.clone(),
                absence: Absence::NoEntry("/nowhere".into()),
            }),
            "never" => std::future::pending().await,
            name => Ok(Volume::imagined(name)),
        }
    }

    async fn recheck(&self, volume: &PodVolume, _: &Volume) -> Result<(), VolumeError> {
        match volume.volume_name.as_str() {
            "exchanged" => Err(VolumeError::Exchanged {
                volume: volume.clone(),
            }),
            _ => Ok(()),
        }
    }
}

pub(super) struct Node {
    pub jobs: Jobs,
    running: Mutex<mpsc::UnboundedReceiver<Running>>,
    copying: Mutex<mpsc::UnboundedReceiver<Copying>>,
    exporting: Mutex<mpsc::UnboundedReceiver<Exporting>>,
    discarding: Mutex<mpsc::UnboundedReceiver<Discarding>>,
}

impl Node {
    pub fn start(journal: &Path, concurrent: usize) -> Self {
        let (imports, running) = mpsc::unbounded_channel();
        let (copies, copying) = mpsc::unbounded_channel();
        let (exports, exporting) = mpsc::unbounded_channel();
        let (discards, discarding) = mpsc::unbounded_channel();
        let engine = Arc::new(Puppet {
            imports,
            copies,
            exports,
            discards,
        });
        let (jobs, set_aside) =
            Jobs::open(journal, engine, Arc::new(Imagined), concurrent).unwrap();
        assert!(set_aside.is_empty(), "{set_aside:?}");
        Self {
            jobs,
            running: Mutex::new(running),
            copying: Mutex::new(copying),
            exporting: Mutex::new(exporting),
            discarding: Mutex::new(discarding),
        }
    }

    /// Starts a job whose source everybody may read.
    pub async fn begin(&self, name: &str, spec: impl Into<JobSpec>) -> Result<Status, StartError> {
        self.jobs.start(id(name), spec, Access::default()).await
    }

    pub async fn next(&self) -> Running {
        timeout(DEADLINE, self.running.lock().await.recv())
            .await
            .unwrap()
            .unwrap()
    }

    pub async fn next_copy(&self) -> Copying {
        timeout(DEADLINE, self.copying.lock().await.recv())
            .await
            .unwrap()
            .unwrap()
    }

    pub async fn next_export(&self) -> Exporting {
        timeout(DEADLINE, self.exporting.lock().await.recv())
            .await
            .unwrap()
            .unwrap()
    }

    pub async fn next_discard(&self) -> Discarding {
        timeout(DEADLINE, self.discarding.lock().await.recv())
            .await
            .unwrap()
            .unwrap()
    }

    /// Whether no import, copy, export or discard waits to be driven.
    pub async fn none_waits(&self) -> bool {
        self.running.lock().await.is_empty()
            && self.copying.lock().await.is_empty()
            && self.exporting.lock().await.is_empty()
            && self.discarding.lock().await.is_empty()
    }

    pub async fn until(&self, name: &str, wanted: impl Fn(&Phase) -> bool) -> Status {
        let mut watcher = self.jobs.board().watch();
        let seen = async {
            loop {
                for change in watcher.next().await {
                    match change {
                        Change::Changed(s) if s.id == id(name) && wanted(&s.phase) => return s,
                        _ => {}
                    }
                }
            }
        };
        timeout(DEADLINE, seen).await.unwrap()
    }
}

pub(super) fn id(name: &str) -> JobId {
    JobId::parse(name).unwrap()
}

fn pod_volume(name: &str) -> PodVolume {
    PodVolume {
        pod_uid: PodUid::parse("pod-1").unwrap(),
        volume_name: VolumeName::parse(name).unwrap(),
        mode: VolumeMode::Filesystem,
    }
}

pub(super) fn copy(source: &str, target: &str) -> CopySpec {
    CopySpec {
        source: pod_volume(source),
        target: pod_volume(target),
        only_differences: true,
    }
}

pub(super) fn export(volume: &str) -> ExportSpec {
    ExportSpec {
        volume: pod_volume(volume),
        object: ObjectLocation {
            bucket: "images".into(),
            key: "disk".into(),
            endpoint: Some(HttpUrl::parse("http://store.test").unwrap()),
            region: None,
            path_style: true,
        },
        format: ExportFormat::Qcow2(Compression::Zlib),
        overwrite: false,
        owner: None,
        digest: true,
        needs_access: false,
    }
}

pub(super) fn object() -> ExportedObject {
    ExportedObject {
        size: 100,
        virtual_size: 4096,
        etag: Some("\"e\"".into()),
        checksum: None,
        address: "http://store.test/images/disk".into(),
    }
}

pub(super) fn exported() -> Result<Exported, Failure> {
    Ok(Exported {
        progress: progress(4096),
        digest: None,
        object: object(),
    })
}

pub(super) fn spec(volume: &str) -> ImportSpec {
    ImportSpec {
        source: Source::Http(HttpUrl::parse("http://images.test/a").unwrap()),
        volume: pod_volume(volume),
        expected: None,
        checksum: None,
        format: None,
        preallocation: false,
        needs_access: false,
    }
}

pub(super) fn facts() -> Facts {
    Facts {
        format: Format::Raw,
        packing: None,
        virtual_size: Some(4096),
        source_size: Some(4096),
        validator: None,
        ranges: true,
    }
}

pub(super) fn progress(done: u64) -> Progress {
    Progress {
        total: 4096,
        done,
        received: done,
        written: done,
    }
}

pub(super) fn done() -> Result<Imported, Failure> {
    Ok(Imported {
        facts: facts(),
        progress: progress(4096),
        digest: None,
    })
}

pub(super) fn stopped() -> Result<Imported, Failure> {
    Err(Failure {
        reason: "Cancelled".into(),
        message: String::new(),
        retryable: false,
    })
}
