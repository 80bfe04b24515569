//! What is said where the cluster could not be looked at.

use hypercloud_api::{HyperCloudStorage, HyperCloudStorageStatus, StorageState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::ground;
use crate::state::{self, Problem};

/// The status of a storage of which nothing can be told for now: what is not
/// seen is not OK. Of its components it stays what was known last.
#[must_use]
pub fn blind(
    resource: &HyperCloudStorage,
    reason: &'static str,
    message: String,
    now: Timestamp,
) -> HyperCloudStorageStatus {
    let mut status = resource.status.clone().unwrap_or_default();
    let problem = Problem {
        reason,
        message,
        waiting: false,
    };
    let deleting = resource.metadata.deletion_timestamp.is_some();
    let whole = state::whole(
        &status.components,
        std::slice::from_ref(&problem),
        &|_| None,
        deleting.then_some(&problem),
    );
    debug_assert!(matches!(
        whole.state,
        StorageState::Error | StorageState::Deleting
    ));
    let generation = resource.metadata.generation.unwrap_or_default();
    ground::write(&mut status, &whole, generation, &Time(now));
    status
}
