#!/usr/bin/env bash
# The Helm chart and the overlays. On the local cluster the system is taken
# away for it, and is not there afterwards (tests/system-up.sh brings it back);
# on one that KUBECONFIG names nothing is changed. Arguments go to the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/phases.sh
. tests/local-cluster.sh
cargo build --quiet --workspace --bins
phase "Helm"
HCS_E2E_HELM=$("$test_cluster" helm)
export HCS_E2E_HELM
phases_end
if [ -z "${KUBECONFIG:-}" ]; then
    use_local_cluster
    export HCS_E2E_OWN_CLUSTER=yes
fi
cargo test --workspace --test delivery -- --nocapture "$@"
