# Sourced: the programs of the local test cluster, and its kubeconfig.

export RUST_BACKTRACE=0
test_cluster=${CARGO_TARGET_DIR:-target}/debug/test-cluster

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
