#!/usr/bin/env bash
# Format, lints, dependency rules, generated files.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --quiet --workspace --all-targets -- -D warnings
cargo build --quiet --workspace --bins
xtask=${CARGO_TARGET_DIR:-target}/debug/xtask
"$xtask" generate --check
"$xtask" tidy

# `cargo deny` is built once and kept outside the checkout by its version.
version=0.20.2
cache=${HCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hypercloud-storage}/cargo-deny-$version
if [ ! -x "$cache/bin/cargo-deny" ]; then
    echo "building cargo-deny $version"
    cargo install --quiet --locked --root "$cache" "cargo-deny@$version"
fi
# Advisories need a network and change by the day: not a matter of this tree.
"$cache/bin/cargo-deny" --log-level warn check --hide-inclusion-graph bans licenses sources

modules=$(find tests -name go.mod -printf '%h\n')
for module in $modules; do
    if compgen -G "$module/*.go" >/dev/null; then
        unformatted=$(gofmt -l "$module")
        if [ -n "$unformatted" ]; then echo "gofmt: $unformatted" >&2; exit 1; fi
        (cd "$module" && GOFLAGS=-buildvcs=false go vet ./...)
    fi
done
