//! End to end, on the cluster that `KUBECONFIG` names, with the system
//! installed from `manifests/base`.

mod access;
mod api;
mod arrival;
mod deletion;
mod documents;
mod interruption;
mod privilege;
mod refusal;
