#!/usr/bin/env bash
# Times imports beside their peers, in interleaved runs on the same inputs,
# and prints a table in Markdown: medians, smallest and largest, ratios round
# by round, and the bars with what was reached.
#
#   ROWS=zlib,zstd   only these rows (default: all, see rows.sh)
#   RUNS=5           counted rounds of each row; one more comes first, whose
#                    result is compared byte by byte
#   RUNS_XZ=3        the same for xz, whose peer takes minutes
#   QEMU_IMG=...     another qemu-img
#   HCS=...          an hcs that is built already; likewise DECODE and LINE
#   TMPDIR           where the target's and the scratch files are: 16 GiB at
#                    most; the inputs, 16 GiB, are kept in HCS_CACHE
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
. scripts/serve.sh
. bench/inputs.sh
. bench/peers.sh
. bench/target.sh
. bench/line.sh
. bench/measure.sh
. bench/rows.sh
. bench/machine.sh

if [ "$(id -u)" -ne 0 ]; then echo "error: loop devices and network namespaces need root" >&2; exit 1; fi
runs=${RUNS:-5}
cache=${HCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hypercloud-storage}
inputs=$cache/bench
mkdir -p "$inputs"
work=$(mktemp -d "${TMPDIR:-/tmp}/hcs-bench.XXXXXX")
results=$work/results.tsv
place=()
failures=()
loopback_pid=
cleanup() {
    trap '' INT TERM
    serve_end
    serve_pid=$loopback_pid
    serve_end
    line_down
    target_end
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ -z "${HCS:-}" ]; then
    # In one go: alone, a package's dependencies are built another way.
    cargo build --quiet --release --package hypercloud-cli --package hypercloud-bench --bins
    HCS=${CARGO_TARGET_DIR:-target}/release/hcs
elif [ -z "${DECODE:-}" ]; then
    cargo build --quiet --release --package hypercloud-bench --bins
fi
DECODE=${DECODE:-${CARGO_TARGET_DIR:-target}/release/decode}
LINE=${LINE:-${CARGO_TARGET_DIR:-target}/release/line}
QEMU_IMG=${QEMU_IMG:-qemu-img}
export HCS DECODE LINE QEMU_IMG

road_serve 127.0.0.1
loopback_pid=$serve_pid loopback_port=$serve_port
serve_pid=

touch "$results"
load_before=$(machine_load)
mapfile -t rows < <(if [ -n "${ROWS:-}" ]; then tr ',' '\n' <<< "$ROWS"; else rows_all; fi)
for row in "${rows[@]}"; do row_run "$row"; done

machine
echo
awk -f bench/report.awk bench/bars.txt "$results"
if [ ${#failures[@]} -gt 0 ]; then
    printf '\nFailed:\n'
    printf -- '- %s\n' "${failures[@]}"
    exit 1
fi
