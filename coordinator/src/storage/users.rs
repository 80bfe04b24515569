//! What a deletion has to look at (client required).

use std::collections::BTreeSet;

use hypercloud_storage::object::Seen;
use hypercloud_storage::plan::deletion::Users;
use kube::Client;

use crate::shell::error::ObserveError;

/// What is left of the storage's use.
#[derive(Clone, Debug, Default)]
pub struct Leftovers {
    /// What uses the storage.
    pub users: Users,
    /// Nodes that Ceph's daemons run on.
    pub hosts: Vec<String>,
    /// Names of definitions of which objects are left.
    pub definitions_in_use: BTreeSet<String>,
    /// Whether volumes of other drivers have snapshots.
    pub foreign_snapshots: bool,
}

/// Looks for them.
pub async fn look(_: &Client, _: &Seen) -> Result<Leftovers, ObserveError> {
    Ok(Leftovers {
        users: Users {
            others: vec!["deletion is not built in".to_owned()],
            ..Users::default()
        },
        ..Leftovers::default()
    })
}
