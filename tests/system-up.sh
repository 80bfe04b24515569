#!/usr/bin/env bash
# Brings the system up on a cluster: the local one, made here if need be, or
# the one that KUBECONFIG names. Prints each phase with its time.
#
# With KUBECONFIG set, HCS_MANIFESTS is a kustomization that names images which
# that cluster can pull.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/phases.sh
. tests/local-cluster.sh
. tests/storage-images.sh

if [ -z "${KUBECONFIG:-}" ]; then
    phase "build the coordinator and the node agent"
    # All of the workspace: the dependencies are compiled with one set of features.
    cargo build --quiet --workspace --bins
    phase "bring the cluster up"
    "$test_cluster" up
    use_local_cluster
    phase "build the images and load them"
    programs=$(dirname "$test_cluster")
    for name in coordinator node-agent; do
        "$test_cluster" image load "hypercloud-storage/$name:dev" \
            --bin "$programs/$name=/usr/local/bin/$name"
    done
    "$test_cluster" image machine "$programs/test-machine"
    load_storage_images "$programs"
fi

phase "install the system"
namespace=hypercloud-storage
former=$(kubectl --namespace $namespace get deployment/coordinator --ignore-not-found --output name)
kubectl apply --kustomize "${HCS_MANIFESTS:-tests/system}" >/dev/null
# Images under an unchanged tag: the pods of an earlier build give way.
if [ -n "$former" ]; then
    kubectl --namespace $namespace rollout restart deployment/coordinator daemonset/node-agent >/dev/null
fi
kubectl --namespace $namespace rollout status deployment/coordinator --timeout=180s >/dev/null
kubectl --namespace $namespace rollout status daemonset/node-agent --timeout=180s >/dev/null
phases_end
