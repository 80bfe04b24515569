#!/usr/bin/env bash
# Times installations of a storage with a Rook that does at once what it is
# told, on the cluster that is up, and has its parts fail at random while the
# status is watched. Prints what the tests say, and a median.
#
#   RUNS=3                 installations, each on a cluster without a storage
#   SECONDS_OF_CHAOS=600   how long parts fail
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/phases.sh
. tests/local-cluster.sh
. bench/machine.sh

runs=${RUNS:-3}
if [ -z "${KUBECONFIG:-}" ]; then
    tests/system-up.sh
    use_local_cluster
fi
said=$(mktemp "${TMPDIR:-/tmp}/hcs-bench.XXXXXX")
trap 'rm -f "$said"' EXIT
storage() {
    cargo test --quiet --workspace --test e2e-storage -- "$@" | tee "$said" >&2
}

load_before=$(machine_load)
times=
for ((run = 0; run < runs; run++)); do
    storage install::every_stage_comes_in_its_order
    took=$(sed -n 's/^OK after \([0-9.]*\) s$/\1/p' "$said")
    if [ -z "$took" ]; then
        echo "error: nothing was installed; is there a mirror of the manifests?" >&2
        exit 1
    fi
    times="$times $took"
done
HCS_CHAOS_SECONDS=${SECONDS_OF_CHAOS:-600} storage chaos::
chaos=$(grep ' flips; ' "$said")

echo "From kubectl apply to OK, s: $(tr ' ' '\n' <<<"${times# }" | sort -n | awk '
    { t[NR] = $1 } END { print t[int((NR + 1) / 2)] " (" t[1] ".." t[NR] ", " NR " runs)" }')"
echo "Chaos of ${SECONDS_OF_CHAOS:-600} s: $chaos"
echo "Load $load_before before, $(machine_load) at the end"
