#!/usr/bin/env bash
# Times an import over HTTP onto a block device beside its peer: curl to a
# scratch file, then qemu-img onto the device. Interleaved runs on the same
# input; medians with their spread, and the ratio of each pair.
#
# RUNS=5 bench/import.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
. scripts/serve.sh

runs=${RUNS:-5}
cache=${HCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hypercloud-storage}
source=$cache/demo/debian-bookworm-1.qcow2
work=$(mktemp -d "${TMPDIR:-/tmp}/hcs-bench.XXXXXX")
loop=
cleanup() {
    serve_end
    if [ -n "$loop" ]; then losetup --detach "$loop"; fi
    rm -rf "$work"
}
trap cleanup EXIT

cargo build --quiet --release --package hypercloud-cli --bin hcs
hcs=${CARGO_TARGET_DIR:-target}/release/hcs
[ -f "$source" ] || demo/disk.sh "$source"

echo "preparing the inputs"
cp "$source" "$work/zlib"
qemu-img convert -O qcow2 -c -o compression_type=zstd "$source" "$work/zstd"
qemu-img convert -O qcow2 "$source" "$work/plain"
qemu-img convert -O raw "$source" "$work/expected"
size=$(stat --format %s "$work/expected")
expected=$(sha256sum < "$work/expected")
rm "$work/expected"

truncate --size "$size" "$work/device"
loop=$(losetup --find --show --direct-io=on "$work/device")
serve 127.0.0.1 "$work" "$work"
port=$serve_port

ours() { "$hcs" image import "http://127.0.0.1:$port/$1" "$loop" >/dev/null; }
peer() {
    curl --silent --fail --output "$work/scratch" "http://127.0.0.1:$port/$1"
    qemu-img convert -n -t none -W -m 16 -f qcow2 -O raw "$work/scratch" "$loop"
    rm "$work/scratch"
}
# Wall seconds of a command, with its work on the disk.
seconds() {
    local start end
    sync
    start=$(date +%s%N)
    "$@"
    sync "$loop"
    end=$(date +%s%N)
    awk -v ns=$((end - start)) 'BEGIN { printf "%.3f", ns / 1e9 }'
}
verify() {
    local found
    found=$(head --bytes "$size" "$loop" | sha256sum)
    [ "$found" = "$expected" ] || { echo "error: $1: the device differs from qemu-img's disk" >&2; exit 1; }
}
# Smallest, median and largest of the numbers given.
spread() { printf '%s\n' "$@" | sort -n | awk '{ v[NR] = $1 } END { printf "%.2f (%.2f..%.2f)", (v[int((NR+1)/2)] + v[int((NR+2)/2)]) / 2, v[1], v[NR] }'; }

printf '%-8s %-24s %-24s %s\n' image "hcs image import, s" "curl + qemu-img, s" "times faster"
for input in zlib zstd plain; do
    ours_s=() peer_s=() ratio=()
    # One run of each that is not counted, and is checked.
    peer "$input"; verify "qemu-img $input"
    ours "$input"; verify "hcs $input"
    for ((run = 0; run < runs; run++)); do
        a=$(seconds ours "$input")
        b=$(seconds peer "$input")
        ours_s+=("$a"); peer_s+=("$b")
        ratio+=("$(awk -v a="$a" -v b="$b" 'BEGIN { print b / a }')")
    done
    printf '%-8s %-24s %-24s %s\n' "$input" "$(spread "${ours_s[@]}")" "$(spread "${peer_s[@]}")" "$(spread "${ratio[@]}")"
done
echo "medians of $runs interleaved runs, smallest and largest in brackets; $(nproc) processors"
