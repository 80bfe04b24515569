# Sourced: the programs of the local test cluster, and its kubeconfig.

. scripts/path.sh
export RUST_BACKTRACE=0
test_cluster=${CARGO_TARGET_DIR:-target}/debug/test-cluster

# A shell in which the demonstration's last words were followed still means
# the local cluster, and so the code as it is now.
if [ -n "${KUBECONFIG:-}" ] && [ "$KUBECONFIG" = "${HCS_CLUSTER_DIR:-/var/lib/hypercloud-storage-cluster}/kubeconfig/admin.json" ]; then
    unset KUBECONFIG
fi
if [ -n "${KUBECONFIG:-}" ] && [ -z "${HCS_MANIFESTS:-}" ]; then
    echo "error: KUBECONFIG names a cluster of yours: set HCS_MANIFESTS to a kustomization that" >&2
    echo "names images which it can pull, or unset KUBECONFIG to have a local cluster made" >&2
    exit 1
fi

# Names the cluster that is up to kubectl and to the tests, and makes sure
# that there is a kubectl.
use_local_cluster() {
    KUBECONFIG=$("$test_cluster" kubeconfig)
    export KUBECONFIG
    if ! command -v kubectl >/dev/null; then
        PATH=$PATH:$("$test_cluster" bin)
        export PATH
    fi
}
