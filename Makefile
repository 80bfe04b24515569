# The two commands: `make demo` and `make test`. Both set up what they need.
.DEFAULT_GOAL := help
SHELL := /bin/bash

.PHONY: help
help: ## What can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  KUBECONFIG set: demo and e2e use that cluster instead of bringing one up."

.PHONY: demo
demo: ## A real local cluster; a disk from HTTP to a volume, booted, and out again
	@scripts/packages.sh && demo/run.sh

.PHONY: test
test: ## Everything that proves the project, on a real cluster
	@scripts/packages.sh && tests/run.sh

.PHONY: check
check: ## Format, lints, dependency rules, generated files
	@scripts/check.sh

.PHONY: unit
unit: ## The tests that need no cluster
	@cargo test --quiet

.PHONY: e2e
e2e: ## The end-to-end tests alone, on the cluster that is up
	@tests/e2e.sh

.PHONY: delivery
delivery: ## The chart and the overlays alone; takes the system away from the cluster
	@tests/delivery.sh

.PHONY: bench-import bench-export bench-devices bench-storage bench
bench-import: ## Imports timed beside their peers; ROWS=zlib,zstd RUNS=5
	@bench/packages.sh && bench/import.sh
bench-export: ## Exports timed beside their peers; ROWS=zlib,zstd RUNS=5
	@bench/packages.sh && bench/export.sh
bench-devices: ## Walks of 500 devices beside lsblk; DEVICES=500 RUNS=9
	@bench/packages.sh && bench/devices.sh
bench-storage: ## Installations of a storage with a simulated Rook, and chaos; RUNS=3 SECONDS_OF_CHAOS=600
	@scripts/packages.sh && bench/storage.sh
bench: bench-import bench-export bench-devices bench-storage

.PHONY: generate
generate: ## Write the generated files: protocol code, CRDs, the chart's templates
	@cargo xtask generate

.PHONY: cluster-up
cluster-up: ## Bring the local cluster up, and the system onto it
	@scripts/packages.sh && tests/system-up.sh

.PHONY: cluster-down
cluster-down: ## Take the local cluster down; nothing of it stays
	@cargo run --quiet --package test-cluster -- down

.PHONY: cluster-status
cluster-status: ## What of the local cluster runs
	@cargo run --quiet --package test-cluster -- status
