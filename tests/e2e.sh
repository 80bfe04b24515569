#!/usr/bin/env bash
# The end-to-end tests, on the cluster that KUBECONFIG names or the local one.
# Arguments go to the test binary: a test's name, --test-threads, ...
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/local-cluster.sh
if [ -z "${KUBECONFIG:-}" ]; then
    use_local_cluster
fi
# Some tests take parts of the system away; the others must live with that,
# as they would in production.
cargo test --workspace --test e2e -- --test-threads 3 "$@"
