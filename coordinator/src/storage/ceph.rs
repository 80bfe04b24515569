//! What Ceph has, and what is done about what it gives up (client required).

use hypercloud_api::HyperCloudStorage;
use hypercloud_storage::object::Seen;
use hypercloud_storage::plan::removal::{Action, Osds};
use hypercloud_storage::state::Problem;
use kube::Client;

use super::nodes::Nodes;
use crate::shell::error::{ExecuteError, ObserveError};

/// The OSDs.
pub async fn osds(
    _: &Client,
    _: &HyperCloudStorage,
    _: &Seen,
    _: &Nodes,
) -> Result<Osds, ObserveError> {
    Ok(Osds::unknown(Problem {
        reason: "OsdUnknown",
        message: "which OSDs there are is not known".to_owned(),
        waiting: true,
    }))
}

/// Does what was decided about one.
pub async fn act(
    _: &Client,
    _: &HyperCloudStorage,
    _: &Seen,
    _: &Action,
) -> Result<Option<Problem>, ExecuteError> {
    Ok(None)
}
