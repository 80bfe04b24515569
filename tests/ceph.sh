#!/usr/bin/env bash
# Exports to a real Ceph object gateway and back, by the command line: every
# format, resumed and given up uploads, objects that are there already. Where
# Ceph cannot be had, this says so and is skipped. HCS names an hcs that is
# built already.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
. scripts/awscli.sh

if ! scripts/packages.sh /usr/bin/ceph-mon:ceph-mon /usr/bin/ceph-osd:ceph-osd \
    /usr/bin/ceph:ceph-common /usr/bin/radosgw:radosgw; then
    echo "skipped: this machine's package sources have no Ceph"
    exit 0
fi
awscli
if [ -z "${HCS:-}" ]; then cargo build --quiet --workspace --bins; fi
hcs=${HCS:-${CARGO_TARGET_DIR:-target}/debug/hcs}
work=$(mktemp -d)
trap 'tests/ceph/gateway.sh down "$work/ceph"; rm -rf "$work"' EXIT

# Ports of 127.0.0.1 that nobody has; the kernel gives none twice in a row.
mapfile -t ports < <(/usr/bin/python3 -c '
import socket
held = [socket.socket() for _ in range(3)]
for one in held: one.bind(("127.0.0.1", 0))
for one in held: print(one.getsockname()[1])')
export AWS_ACCESS_KEY_ID=AKIDCEPH AWS_SECRET_ACCESS_KEY=a-key-of-the-tests AWS_REGION=us-east-1
export AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null XDG_STATE_HOME=$work/state
export no_proxy=127.0.0.1
start=$SECONDS
tests/ceph/gateway.sh up "$work/ceph" "${ports[@]}"
echo "$(radosgw --version | cut -d ' ' -f 1-3) answers after $((SECONDS - start)) s"
endpoint=http://127.0.0.1:${ports[0]}
s3() { "$aws" --endpoint-url "$endpoint" "$@"; }
store=(--endpoint "$endpoint" --path-style)
s3 s3 mb s3://vm-image >/dev/null

# Noise, text and holes, more than some parts of it.
truncate --size 640M "$work/disk.raw"
head --bytes 60M /dev/urandom | dd of="$work/disk.raw" bs=1M seek=3 conv=notrunc status=none
yes "a line of text like many others" | head --bytes 60M | dd of="$work/disk.raw" bs=1M seek=560 conv=notrunc status=none || true

passed=0
fail() { echo "error: $*" >&2; exit 1; }
pass() { passed=$((passed + 1)); echo "ok: $*"; }
no_uploads() {
    local left
    left=$(s3 s3api list-multipart-uploads --bucket vm-image --query 'length(Uploads || `[]`)' --output text)
    [ "$left" = 0 ] || fail "$1: $left uploads are left"
}
same() {
    local format=$1
    if [ "$format" = qcow2 ]; then qemu-img check -q -f qcow2 "$2" || fail "$3: qemu-img check"; fi
    qemu-img compare -q -f "$format" -F raw "$2" "$work/disk.raw" || fail "$3: another disk"
}

for kind in zlib zstd none raw; do
    format=qcow2 compression=$kind
    if [ $kind = raw ]; then format=raw compression=none; fi
    "$hcs" image export "$work/disk.raw" s3://vm-image/$kind "${store[@]}" \
        --format $format --compression $compression >/dev/null
    no_uploads $kind
    s3 s3 cp --only-show-errors s3://vm-image/$kind "$work/object"
    same $format "$work/object" $kind
    rm -f "$work/back.raw"
    "$hcs" image import s3://vm-image/$kind "$work/back.raw" "${store[@]}" >/dev/null
    cmp "$work/back.raw" "$work/disk.raw" || fail "$kind: another disk came back"
    pass "$kind out and in, $(stat --format %s "$work/object") bytes"
done

if "$hcs" image export "$work/disk.raw" s3://vm-image/zlib "${store[@]}" 2>"$work/said"; then
    fail "an object was replaced"
fi
grep -qi exist "$work/said" || fail "$(cat "$work/said")"
no_uploads "an object that is there"
"$hcs" image export "$work/disk.raw" s3://vm-image/zlib "${store[@]}" --overwrite >/dev/null
s3 s3 cp --only-show-errors s3://vm-image/zlib "$work/object"
same qcow2 "$work/object" overwrite
pass "an object is replaced only where that is wanted"

# parts KEY: how many parts of it are stored.
parts() {
    local id
    id=$(s3 s3api list-multipart-uploads --bucket vm-image --query 'Uploads[0].UploadId' --output text)
    if [ "$id" = None ]; then echo 0; return; fi
    s3 s3api list-parts --bucket vm-image --key "$1" --upload-id "$id" \
        --query 'length(Parts || `[]`)' --output text
}

# midway KEY OPTION...: an export that is halted with some parts stored, in
# the process `running`.
midway() {
    local key=$1
    shift
    "$hcs" image export "$work/disk.raw" "s3://vm-image/$key" "${store[@]}" --format raw "$@" \
        >/dev/null 2>&1 & running=$!
    while :; do
        read -r -t 0.1 <> <(:) || true
        kill -STOP $running 2>/dev/null || fail "$key: it was too fast"
        if [ "$(parts "$key")" -ge 2 ]; then return; fi
        kill -CONT $running
    done
}

midway killed --resume
kill -KILL $running
wait $running 2>/dev/null || true
stored=$(parts killed)
"$hcs" image export "$work/disk.raw" s3://vm-image/killed "${store[@]}" --format raw --resume >/dev/null
no_uploads killed
s3 s3 cp --only-show-errors s3://vm-image/killed "$work/object"
same raw "$work/object" killed
pass "an export that was killed with $stored parts stored goes on"

midway stopped
kill -INT $running
kill -CONT $running
if wait $running; then fail "it was done before it was stopped"; fi
no_uploads stopped
if s3 s3api head-object --bucket vm-image --key stopped >/dev/null 2>&1; then fail "half an object"; fi
pass "an export that is stopped leaves nothing"
echo "ceph: $passed passed, 0 failed; $((SECONDS - start)) s"
