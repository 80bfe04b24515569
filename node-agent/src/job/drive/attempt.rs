//! One try of a job's transfer: the order to the engine, and what its end
//! means.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::held::Held;
use super::{Drive, fault};
use crate::engine::{CopyOrder, ExportOrder, Exported, ImportOrder, Imported};
use crate::job::spec::{CopySpec, ExportSpec, ImportSpec, JobSpec};
use crate::job::state::{Checkpoint, Event, Failure};

impl Drive {
    /// One try; its good end is an event.
    pub(super) async fn attempt(
        self: Arc<Self>,
        stop: &CancellationToken,
    ) -> Result<Event, Failure> {
        let held = self.held.lock().clone();
        let held = held.ok_or_else(|| fault("the job has no volume"))?;
        let (spec, resume) = {
            let record = &self.driven.lock().record;
            (record.spec.clone(), record.state.checkpoint.clone())
        };
        let stop = stop.child_token();
        let transfer = async move {
            match spec {
                JobSpec::Import(spec) => self.import(spec, held, resume, stop).await,
                JobSpec::Copy(spec) => self.copy(spec, held, resume, stop).await,
                JobSpec::Export(spec) => self.export(spec, held, resume, stop).await,
            }
        };
        let ended = AssertUnwindSafe(transfer).catch_unwind().await;
        ended.unwrap_or_else(|_| Err(fault("the transfer ended by a fault of the agent")))
    }

    async fn import(
        self: Arc<Self>,
        spec: ImportSpec,
        held: Held,
        resume: Option<Checkpoint>,
        stop: CancellationToken,
    ) -> Result<Event, Failure> {
        let order = ImportOrder {
            source: spec.source,
            access: self.access.clone(),
            volume: written(held.target)?,
            expected: spec.expected,
            checksum: spec.checksum,
            format: spec.format,
            preallocation: spec.preallocation,
            resume,
        };
        let engine = self.tools.engine.clone();
        let Imported {
            facts,
            progress,
            digest,
        } = engine.import(order, self, stop).await?;
        Ok(Event::Completed {
            facts: Some(facts),
            progress,
            digest,
            object: None,
        })
    }

    async fn copy(
        self: Arc<Self>,
        spec: CopySpec,
        held: Held,
        resume: Option<Checkpoint>,
        stop: CancellationToken,
    ) -> Result<Event, Failure> {
        let order = CopyOrder {
            source: read(held.source)?,
            target: written(held.target)?,
            only_differences: spec.only_differences,
            resume,
        };
        let engine = self.tools.engine.clone();
        let progress = engine.copy(order, self, stop).await?;
        Ok(Event::Completed {
            facts: None,
            progress,
            digest: None,
            object: None,
        })
    }

    async fn export(
        self: Arc<Self>,
        spec: ExportSpec,
        held: Held,
        resume: Option<Checkpoint>,
        stop: CancellationToken,
    ) -> Result<Event, Failure> {
        let order = ExportOrder {
            volume: read(held.source)?,
            object: spec.object,
            access: self.access.clone(),
            format: spec.format,
            overwrite: spec.overwrite,
            owner: spec.owner,
            digest: spec.digest,
            resume,
        };
        let engine = self.tools.engine.clone();
        let Exported {
            progress,
            digest,
            object,
        } = engine.export(order, self, stop).await?;
        Ok(Event::Completed {
            facts: None,
            progress,
            digest,
            object: Some(object),
        })
    }
}

fn read<T>(volume: Option<T>) -> Result<T, Failure> {
    volume.ok_or_else(|| fault("the job has no volume to read"))
}

fn written<T>(volume: Option<T>) -> Result<T, Failure> {
    volume.ok_or_else(|| fault("the job has no volume to write"))
}
