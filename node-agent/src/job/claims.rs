//! Which jobs have which volumes.
//!
//! Invariants: a volume that one job writes no other job has at the same
//! time; several may read one. A job waits for its volumes in the order of
//! their names, so that no two wait for each other.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::volume::VolumeName;

/// What a job does with a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// Others may read it, too.
    Read,
    /// Nobody else may have it.
    Write,
}

/// The volumes that jobs have or wait for.
#[derive(Default)]
pub(super) struct Claims {
    volumes: Mutex<HashMap<VolumeName, Weak<RwLock<()>>>>,
}

/// A volume that a job has, until this is dropped.
pub(super) enum Claimed {
    Read { _guard: OwnedRwLockReadGuard<()> },
    Write { _guard: OwnedRwLockWriteGuard<()> },
}

impl Claims {
    /// Waits until the job may have all of the volumes. Each has to be named
    /// once.
    pub(super) async fn take(&self, mut volumes: Vec<(VolumeName, Use)>) -> Vec<Claimed> {
        volumes.sort();
        let mut claimed = Vec::with_capacity(volumes.len());
        for (volume, what) in volumes {
            let lock = self.lock(volume);
            claimed.push(match what {
                Use::Read => Claimed::Read {
                    _guard: lock.read_owned().await,
                },
                Use::Write => Claimed::Write {
                    _guard: lock.write_owned().await,
                },
            });
        }
        claimed
    }

    fn lock(&self, volume: VolumeName) -> Arc<RwLock<()>> {
        let mut volumes = self.volumes.lock();
        volumes.retain(|_, lock| lock.strong_count() > 0);
        match volumes.get(&volume).and_then(Weak::upgrade) {
            Some(lock) => lock,
            None => {
                let lock = Arc::default();
                volumes.insert(volume, Arc::downgrade(&lock));
                lock
            }
        }
    }
}
