//! Manifests (client required).

use std::sync::{Arc, Mutex, PoisonError};

use hypercloud_api::HyperCloudStorageSpec;
use hypercloud_storage::manifest::source::{Place, Wanted};
use hypercloud_storage::manifest::{Files, ManifestError, read};
use kube::Client;

/// Files that were fetched.
#[derive(Clone)]
pub struct Library(Arc<Mutex<Files>>);

impl Library {
    /// None yet.
    #[must_use]
    pub fn new(_: Client, _: &str) -> Self {
        Self(Arc::default())
    }

    /// Those that are at hand.
    pub async fn files(&self, _: &HyperCloudStorageSpec) -> Files {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Fetches some.
    pub async fn fetch(&self, spec: &HyperCloudStorageSpec, wanted: &[Wanted]) -> bool {
        for wanted in wanted {
            let place = wanted.place(spec.manifests.as_ref());
            let found = match &place {
                Place::File(path) => std::fs::read(path).ok(),
                _ => None,
            };
            let found = match found {
                Some(bytes) => read(wanted, &bytes, wanted.expected(spec)),
                None => Err(ManifestError::Missing {
                    path: wanted.path(),
                    place: format!("{place:?}"),
                }),
            };
            let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            files.insert(wanted.clone(), found);
        }
        true
    }

    /// Drops all.
    pub async fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}
