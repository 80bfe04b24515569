//! End to end, on the cluster that `KUBECONFIG` names, with the system
//! installed from `manifests/base`.

mod access;
mod api;
mod arrival;
mod chaos;
mod consumer;
mod deletion;
mod disk;
mod documents;
mod interruption;
mod object_store;
mod packed;
mod preallocation;
mod privilege;
mod protection;
mod refusal;
mod rollback;

// The same object store that the engine is tested with.
#[allow(dead_code, clippy::unwrap_used)]
#[path = "../../../../transfer/tests/engine/store.rs"]
mod store;
