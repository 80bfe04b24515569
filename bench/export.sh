#!/usr/bin/env bash
# Times exports beside their peers, in interleaved runs from the same disk to
# the same S3 server on this machine, and prints a table in Markdown: medians,
# smallest and largest, ratios round by round, the objects' sizes, and the
# bars with what was reached.
#
#   ROWS=zlib,zstd   only these rows (default: zlib, zstd, none, wide)
#   RUNS=5           counted rounds of each row; one more comes first, whose
#                    object is fetched and compared with the disk
#   INPUT=disk.raw   another input of inputs.sh, e.g. small.raw
#   QEMU_IMG=...     another qemu-img
#   HCS=...          an hcs that is built already; likewise COMPRESS and STORE_PROGRAM
#   TMPDIR           where the scratch files are: 8 GiB at most; the input,
#                    3 GiB, is kept in HCS_CACHE, the objects are in memory
#                    where there is room
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
. scripts/awscli.sh
. scripts/store.sh
. bench/inputs.sh
. bench/measure.sh
. bench/machine.sh

if [ "$(id -u)" -ne 0 ]; then echo "error: loop devices need root" >&2; exit 1; fi
runs=${RUNS:-5}
cache=${HCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hypercloud-storage}
inputs=$cache/bench
mkdir -p "$inputs"
work=$(mktemp -d "${TMPDIR:-/tmp}/hcs-bench.XXXXXX")
results=$work/results.tsv
input_name=${INPUT:-disk.raw}
place=()
failures=()
loop=
objects=
cleanup() {
    trap '' INT TERM
    store_end
    if [ -n "$loop" ]; then losetup --detach "$loop" || true; fi
    rm -rf "$work" ${objects:+"$objects"}
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

built=${CARGO_TARGET_DIR:-target}/release
if [ -z "${HCS:-}" ] || [ -z "${COMPRESS:-}" ] || [ -z "${STORE_PROGRAM:-}" ]; then
    # In one go: alone, a package's dependencies are built another way.
    cargo build --quiet --release --package hypercloud-cli --package hypercloud-bench --package test-store --bins
fi
HCS=${HCS:-$built/hcs}
COMPRESS=${COMPRESS:-$built/compress}
QEMU_IMG=${QEMU_IMG:-qemu-img}
awscli
AWS=$aws
# The peer's upload is to be as quick as it can: no second checksum.
AWS_REQUEST_CHECKSUM_CALCULATION=when_required
AWS_CONFIG_FILE=/dev/null
AWS_SHARED_CREDENTIALS_FILE=/dev/null
export HCS COMPRESS QEMU_IMG AWS AWS_REQUEST_CHECKSUM_CALCULATION AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE

# What is measured is the way to the store, not the store's disk.
folder=$work
if [ "$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt $((6 << 20)) ] 2>/dev/null; then
    objects=$(mktemp -d /dev/shm/hcs-bench.XXXXXX)
    folder=$objects
fi
store_up "${STORE_PROGRAM:-$built/test-store}" 127.0.0.1 "$folder" bench
STORE=$store_url
SCRATCH=$work/scratch
export STORE SCRATCH

input "$input_name"
disk=$input_path
loop=$(losetup --find --show --read-only --direct-io=on "$disk")

ways_program=bench/export-ways.sh
target_fresh() { "$AWS" --endpoint-url "$STORE" s3 rm --only-show-errors "$OBJECT"; }
target_settle() { :; }
measured_bytes() {
    if [ "$WAY" = compress ]; then echo 0; return; fi
    "$AWS" --endpoint-url "$STORE" s3api head-object --bucket bench --key "${OBJECT##*/}" \
        --query ContentLength --output text
}

# object_holds RAW: whether the object is a sound qcow2 of the disk.
object_holds() {
    rm -f "$SCRATCH"
    "$AWS" --endpoint-url "$STORE" s3 cp --only-show-errors "$OBJECT" "$SCRATCH" &&
        "$QEMU_IMG" check -q -f qcow2 "$SCRATCH" &&
        "$QEMU_IMG" compare -q -f qcow2 -F raw "$SCRATCH" "$1"
}

# row_run ROW: an uncounted run of each way, then the rounds of all of them,
# every other one backwards.
row_run() {
    local row=$1 run rounds=$runs way ways good=()
    SOURCE=$loop COMPRESSION=$row INPUT=$disk
    case $row in
        zlib) ways=(hcs hcs-sha256 base typed compress) ;;
        zstd) ways=(hcs base compress) ;;
        none) ways=(hcs base) ;;
        # A disk of 2 TiB in a file, with a MiB of data in every 64 GiB.
        wide)
            ways=(hcs) rounds=1 COMPRESSION=zlib SOURCE=$work/wide
            truncate --size 2T "$SOURCE"
            for ((run = 0; run < 32; run++)); do
                dd if="$disk" of="$SOURCE" bs=1M count=1 seek=$((run << 16)) skip=$run conv=notrunc status=none
            done
            ;;
        *) echo "error: no row is called $row; there are: zlib zstd none wide" >&2; exit 2 ;;
    esac
    export SOURCE COMPRESSION
    echo "$row: ${ways[*]}" >&2
    for way in "${ways[@]}"; do
        OBJECT=s3://bench/$row-$way
        export OBJECT
        WAY=$way measure "$row" 0 || continue
        case $row/$way in
            */compress) ;;
            # Comparing all of it would take an hour.
            wide/*) ;;
            *) object_holds "$disk" || { failures+=("$row $way: another disk"); continue; } ;;
        esac
        good+=("$way")
    done
    for ((run = 1; run <= rounds; run++)); do
        for way in "${good[@]}"; do
            OBJECT=s3://bench/$row-$way
            export OBJECT
            WAY=$way measure "$row" "$run" || true
        done
        mapfile -t good < <(printf '%s\n' "${good[@]}" | tac)
    done
    # Room for the next row's.
    for way in "${ways[@]}"; do
        "$AWS" --endpoint-url "$STORE" s3 rm --only-show-errors "s3://bench/$row-$way" || true
    done
}

machine_about() {
    cat <<TEXT
- Peers: $(machine_qemu); $("$AWS" --version 2>&1 | cut -d ' ' -f 1)
- Store: this project's tests/store (s3s), on the same processors, its objects in $(df --output=fstype "$folder" | tail -n 1); it looks at every signature, and computes no MD5
- Disk: $(numfmt --to=iec-i --suffix=B "$(stat --format %s "$disk")"), ext4 with $(machine_data "$input_name") of Debian's files, a loop device with O_DIRECT; \`wide\`: a file of 2 TiB with 32 MiB of it
- Ways: \`base\` is \`qemu-img convert -c -T none -t none -W -m 16\` to a scratch file, then \`aws s3 cp\`; \`typed\` the same with \`qemu-img convert -c\` alone; without \`-c\` in \`none\`; \`compress\` compressing the same clusters alone, from memory; \`hcs-sha256\` with \`--digest\`
TEXT
}

touch "$results"
load_before=$(machine_load)
IFS=, read -r -a rows <<< "${ROWS:-zlib,zstd,none,wide}"
for row in "${rows[@]}"; do row_run "$row"; done

machine
echo
awk -v objects=1 -f bench/report.awk bench/export-bars.txt "$results"
if [ ${#failures[@]} -gt 0 ]; then
    printf '\nFailed:\n'
    printf -- '- %s\n' "${failures[@]}"
    exit 1
fi
