//! What a deletion of the storage has to look at: who uses it, which nodes
//! Ceph runs on, and which definitions are used.
//!
//! - [`list`] (client required) reads whole kinds, page by page.
//! - [`claims`]: claims and volumes. [`snapshots`], [`buckets`],
//!   [`resources`]: what else is of this storage. [`hosts`]: nodes.
//!   [`definitions`]: of which kinds there are objects. (client required)
//!
//! A kind without a definition has no objects.
//!
//! Invariant: what cannot be read is an error, or counts as used; that the API
//! server does not know a kind which is defined is no sign that it is unused.

pub mod buckets;
pub mod claims;
pub mod definitions;
pub mod hosts;
pub mod list;
pub mod resources;
pub mod snapshots;

use std::collections::BTreeSet;

use hypercloud_storage::object::Seen;
use hypercloud_storage::plan::deletion::Users;
use kube::Client;

use crate::shell::error::ObserveError;

/// What a deletion has to know beside what the storage made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

/// Looks at all of it.
pub async fn look(client: &Client, seen: &Seen) -> Result<Leftovers, ObserveError> {
    let classes = claims::classes(client).await?;
    let (claims, volumes) = claims::look(client, &classes, seen).await?;
    let snapshots = snapshots::look(client, seen).await?;
    let groups = list::groups(client).await?;
    Ok(Leftovers {
        users: Users {
            claims,
            volumes,
            snapshots: snapshots.ours,
            buckets: buckets::look(client, &classes, seen).await?,
            others: resources::look(client, &groups, seen).await?,
        },
        hosts: hosts::of_ceph(client).await?,
        definitions_in_use: definitions::in_use(client, &groups, seen).await?,
        foreign_snapshots: snapshots.foreign,
    })
}
