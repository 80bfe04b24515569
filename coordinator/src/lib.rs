//! The coordinator: reconciles HyperCloud Storage's custom resources.
//!
//! Every replica serves health and judges what is applied ([`admission`]); the
//! one that holds the Lease ([`leader`])
//! keeps the certificates ([`tls`]), the links to the node agents
//! ([`agents`]) and the reconcilers ([`image`], [`disk`], [`rollback`],
//! [`export`], [`inventory`], [`cleanup`], [`storage`]), whose shells share [`shell`].
//!
//! Invariants: what decides (`plan`, `validate`, `status`, `leader::decide`,
//! `agents::table`, `agents::devices`) imports no client, no runtime and no clock; the only
//! memory between two reconciles is the API server's and the agents', but for what
//! may be lost at any time (`storage::memory`).

pub mod access;
pub mod admission;
pub mod again;
pub mod agents;
pub mod backoff;
pub mod cleanup;
pub mod config;
pub mod copy;
pub mod decision;
pub mod disk;
pub mod export;
pub mod health;
pub mod holder;
pub mod image;
pub mod inventory;
pub mod leader;
pub mod metrics;
pub mod rollback;
pub mod shell;
pub mod storage;
pub mod tls;
pub mod volume;
pub mod wiring;
pub mod work;
