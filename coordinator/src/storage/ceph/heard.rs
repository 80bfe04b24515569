//! What Ceph answered last, so that the logs of a Job are read once: what a
//! Job printed that has ended does not change.
//!
//! It may be lost: then the logs are read once more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::answer::Told;

/// The last answer, by the UID of the Job that printed it.
#[derive(Debug, Default)]
pub struct Heard(Mutex<Option<(String, Arc<[Told]>)>>);

impl Heard {
    /// What the Job of this UID printed.
    pub(super) fn of(&self, uid: &str) -> Option<Arc<[Told]>> {
        let last = self.last();
        let (job, told) = last.as_ref()?;
        (job == uid).then(|| Arc::clone(told))
    }

    /// Keeps an answer in place of the last one.
    pub(super) fn keep(&self, uid: &str, told: Vec<Told>) -> Arc<[Told]> {
        let told: Arc<[Told]> = told.into();
        *self.last() = Some((uid.to_owned(), Arc::clone(&told)));
        told
    }

    /// Lets go of it.
    pub fn forget(&self) {
        *self.last() = None;
    }

    fn last(&self) -> MutexGuard<'_, Option<(String, Arc<[Told]>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
