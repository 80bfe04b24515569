//! End to end, on the cluster that `KUBECONFIG` names, with the system
//! installed from `manifests/base`.

mod access;
mod api;
mod arrival;
mod chaos;
mod consumer;
mod deletion;
mod devices;
mod disk;
mod documents;
mod export;
mod interruption;
mod object_store;
mod packed;
mod preallocation;
mod privilege;
mod protection;
mod refusal;
mod rollback;
