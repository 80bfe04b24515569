#!/usr/bin/env bash
# Brings the system up on a cluster: the local one, made here if need be, or
# the one that KUBECONFIG names. Prints each phase with its time.
#
# With KUBECONFIG set, that cluster must be able to pull the images that
# manifests/base names, or HCS_MANIFESTS a folder that names others.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/phases.sh

if [ -z "${KUBECONFIG:-}" ]; then
    phase "build the coordinator and the node agent"
    cargo build --quiet --package hypercloud-coordinator --package node-agent --package test-cluster
    target=${CARGO_TARGET_DIR:-target}/debug
    phase "bring the cluster up"
    "$target/test-cluster" up
    KUBECONFIG=$("$target/test-cluster" kubeconfig)
    export KUBECONFIG
    phase "build the images and load them"
    "$target/test-cluster" image load hypercloud-storage/coordinator:dev --bin "$target/coordinator"
    "$target/test-cluster" image load hypercloud-storage/node-agent:dev --bin "$target/node-agent"
fi

phase "install the system"
kubectl apply --kustomize "${HCS_MANIFESTS:-manifests/base}" >/dev/null
namespace=hypercloud-storage
# Images under an unchanged tag: the pods of an earlier build give way.
kubectl --namespace $namespace rollout restart deployment/coordinator daemonset/node-agent >/dev/null
kubectl --namespace $namespace rollout status deployment/coordinator --timeout=180s >/dev/null
kubectl --namespace $namespace rollout status daemonset/node-agent --timeout=180s >/dev/null
phases_end
