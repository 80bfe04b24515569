#!/usr/bin/env bash
# The end-to-end tests, on the cluster that KUBECONFIG names or the local one.
# Arguments go to the test binary: a test's name, --test-threads, ...
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${KUBECONFIG:-}" ]; then
    KUBECONFIG=$(cargo run --quiet --package test-cluster -- kubeconfig)
    export KUBECONFIG
fi
# Some tests take parts of the system away; the others must live with that,
# as they would in production.
cargo test --package e2e --test e2e -- --test-threads 3 "$@"
