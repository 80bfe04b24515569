#!/usr/bin/env bash
# Everything that proves the project: checks, unit tests, the CSI driver's
# conformance, and end to end on a real cluster, which is taken down after.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/phases.sh
. tests/local-cluster.sh

phase "unit tests"
cargo test --workspace --exclude e2e --no-fail-fast

phase "format, lints, rules"
scripts/check.sh

phase "exports to a real Ceph object gateway"
tests/ceph.sh

own_cluster=
if [ -z "${KUBECONFIG:-}" ]; then
    own_cluster=yes
    trap '"$test_cluster" down' EXIT
    phase "the test cluster's CSI driver against csi-sanity"
    (cd tests/cluster/csi-driver && GOFLAGS=-buildvcs=false go test ./...)
fi

phase "the system on the cluster"
tests/system-up.sh
phase "end to end"
tests/e2e.sh
phase "the demonstration"
demo/run.sh
phase "the Helm chart and the overlays"
tests/delivery.sh
phases_end
[ -z "$own_cluster" ] || echo "taking the cluster down"
