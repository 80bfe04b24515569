//! The volumes of a job: what it wants, and what was found.

use crate::job::spec::JobSpec;
use crate::volume::{PodVolume, Volume, VolumeError, Volumes};

/// The volumes that a job reads and writes.
pub(super) struct Wanted {
    source: Option<PodVolume>,
    target: Option<PodVolume>,
}

/// The same, found. While this lives, they stay where they are.
#[derive(Clone)]
pub(super) struct Held {
    /// Of a copy and of an export.
    pub(super) source: Option<Volume>,
    /// Of an import and of a copy.
    pub(super) target: Option<Volume>,
}

impl Wanted {
    pub(super) fn of(spec: &JobSpec) -> Self {
        Self {
            source: spec.source().cloned(),
            target: spec.target().cloned(),
        }
    }

    /// Waits for the volumes, both at once: kubelet takes its time only once.
    pub(super) async fn locate(&self, volumes: &dyn Volumes) -> Result<Held, VolumeError> {
        let source = located(self.source.as_ref(), volumes);
        let target = located(self.target.as_ref(), volumes);
        let (source, target) = tokio::try_join!(source, target)?;
        Ok(Held { source, target })
    }

    /// Whether they are still the ones that were found.
    pub(super) async fn recheck(
        &self,
        held: &Held,
        volumes: &dyn Volumes,
    ) -> Result<(), VolumeError> {
        let pairs = [(&self.source, &held.source), (&self.target, &held.target)];
        for (wanted, found) in pairs {
            if let (Some(wanted), Some(found)) = (wanted, found) {
                volumes.recheck(wanted, found).await?;
            }
        }
        Ok(())
    }
}

async fn located(
    wanted: Option<&PodVolume>,
    volumes: &dyn Volumes,
) -> Result<Option<Volume>, VolumeError> {
    match wanted {
        Some(volume) => volumes.locate(volume).await.map(Some),
        None => Ok(None),
    }
}
