#!/usr/bin/env bash
# One way to bring an image onto a target, once: what is timed. Everything is
# told by the environment:
#
#   WAY      which way, see below
#   URL      where the image is on the web server
#   INPUT    the same image as a file
#   FORMAT   qcow2, raw, gz, zst or xz; the latter three hold a raw disk
#   TARGET   a block device, or the name of a file to make
#   SCRATCH  the name of a file that a way may use
#   SHA256   the image's digest
#   HCS, DECODE, QEMU_IMG, PEERS   programs, and the peers' folder
#
# usage: WAY=hcs URL=... TARGET=... bench/ways.sh
set -euo pipefail

import() { "$HCS" image import "$URL" "$TARGET" "$@"; }

# Onto the device, or into a sparse file, with everything that makes qemu-img
# quick: no page cache for the target, 16 requests, out of order.
convert() {
    local new=()
    if [ -b "$TARGET" ]; then new=(-n); fi
    "$QEMU_IMG" convert "${new[@]}" -t none -W -m 16 -f "$1" -O raw "$2" "$TARGET"
}

fetch() { curl --silent --show-error --fail "$@" "$URL"; }

case $WAY in
    hcs) import ;;
    hcs-sha256) import --checksum "sha256:$SHA256" ;;
    hcs-16) import --connections 16 ;;
    # What CDI does at its best: all of the source to a scratch file, then
    # qemu-img. Compressed files are decompressed as they come, by one thread;
    # pigz needs half of gzip's time for it.
    base)
        case $FORMAT in
            qcow2 | raw) fetch --output "$SCRATCH" ;;
            gz) fetch | pigz --processes 1 --decompress --stdout > "$SCRATCH" ;;
            zst) fetch | zstd --quiet --decompress --stdout > "$SCRATCH" ;;
            xz) fetch | xz --decompress --threads=1 --stdout > "$SCRATCH" ;;
        esac
        case $FORMAT in
            qcow2) convert qcow2 "$SCRATCH" ;;
            *) convert raw "$SCRATCH" ;;
        esac
        ;;
    local) convert "$FORMAT" "$INPUT" ;;
    nbdkit)
        filters=()
        if [ "$FORMAT" = qcow2 ]; then filters=(--filter=qcow2dec); fi
        # Its own mounts: nothing stays mounted, however this ends.
        unshare --mount bash -c '
            set -euo pipefail
            mount --bind /dev "$0/dev"
            exec chroot "$0" nbdkit --unix - "${@:3}" curl "$1" \
                --run "exec nbdcopy --flush \"\$uri\" $2"
        ' "$PEERS" "$URL" "$TARGET" "${filters[@]}"
        ;;
    # Decoding alone, from memory; prints its seconds, which are what counts.
    decode) "$DECODE" "$INPUT" ;;
    # Only the way here.
    curl) fetch --output /dev/null ;;
    *) echo "error: no way is called $WAY" >&2; exit 2 ;;
esac
