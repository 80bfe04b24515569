#!/usr/bin/env bash
# The end-to-end tests, on the cluster that KUBECONFIG names or the local one.
# Arguments go to the test binary: a test's name, --test-threads, ...
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/phases.sh
. tests/local-cluster.sh
. demo/bootable.sh
. scripts/awscli.sh
if [ -z "${KUBECONFIG:-}" ]; then
    use_local_cluster
fi
make_bootable_disk
phases_end
awscli
export HCS_E2E_BOOTABLE_DISK=$bootable_disk HCS_E2E_AWS=$aws
# The programs that some of the tests run.
cargo build --quiet --workspace --bins
HCS_E2E_PROGRAMS=$(realpath "$(dirname "$test_cluster")")
export HCS_E2E_PROGRAMS
# Some tests take parts of the system away; the others must live with that,
# as they would in production.
cargo test --workspace --test e2e -- --test-threads 3 "$@"
# The platform's storage is one in a cluster: its tests run one after another.
cargo test --workspace --test e2e-storage -- "$@"
