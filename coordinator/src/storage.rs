//! `HyperCloudStorage`: the platform's storage, installed, watched, changed
//! and removed.
//!
//! What is decided about it is the crate `hypercloud_storage`'s: one function
//! goes from a look to the status and to what is done. Here is what looks and
//! what does. The stages of one reconcile:
//!
//! 1. [`observe`] (client required): [`look`] reads the objects of every kind
//!    that matters, [`nodes`] the nodes and their devices; what has to be known
//!    for a deletion is [`users`]', and of devices that are given up [`ceph`]'s;
//!    [`fetch`] has the manifests.
//! 2. `hypercloud_storage::decide` (no client).
//! 3. The status is written, with the [`notices`] that its change is worth.
//! 4. [`execute`] (client required): applies, deletes, purges. What the API
//!    server refuses is remembered, and is in the status after the next look.
//!
//! Invariants: nothing is done before the status that says so is written, nor
//! before our finalizer is on the resource; every effect may be repeated, and
//! the coordinator may die before any of them. What [`memory`] keeps between
//! two looks (when an object was applied last, what was refused) may be lost
//! at any time, and costs a request.
//!
//! Objects are applied by one field manager, which takes what it means from
//! others and leaves alone what it does not mean. They are applied anew when
//! somebody took a field of theirs, and every few minutes all the same.

pub mod ceph;
pub mod controller;
pub mod dynamic;
pub mod execute;
pub mod fetch;
pub mod held;
pub mod look;
pub mod memory;
pub mod nodes;
pub mod notices;
pub mod observe;
pub mod reconcile;
pub mod status;
pub mod users;
pub mod watches;
