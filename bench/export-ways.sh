#!/usr/bin/env bash
# One way to bring a disk into an object store, once: what is timed. Everything
# is told by the environment:
#
#   WAY          which way, see below
#   SOURCE       the disk: a block device, or a raw file
#   COMPRESSION  zlib, zstd or none, of a qcow2's clusters
#   OBJECT       s3://bucket/key
#   STORE        the store's address; its keys stand where the AWS tools look
#   SCRATCH      the name of a file that a way may use
#   HCS, COMPRESS, QEMU_IMG, AWS   programs
#
# usage: WAY=hcs SOURCE=... OBJECT=... bench/export-ways.sh
set -euo pipefail

export_it() {
    "$HCS" image export "$SOURCE" "$OBJECT" --endpoint "$STORE" --path-style \
        --compression "$COMPRESSION" --overwrite "$@"
}

# convert OPTION...: the whole disk to the scratch file.
convert() {
    local compress=()
    case $COMPRESSION in
        zlib) compress=(-c) ;;
        zstd) compress=(-c -o compression_type=zstd) ;;
    esac
    "$QEMU_IMG" convert -f raw -O qcow2 "${compress[@]}" "$@" "$SOURCE" "$SCRATCH"
}

upload() { "$AWS" --endpoint-url "$STORE" s3 cp --only-show-errors "$SCRATCH" "$OBJECT"; }

case $WAY in
    hcs) export_it ;;
    hcs-sha256) export_it --digest ;;
    # With everything that makes qemu-img quick: no page cache, 16 requests,
    # out of order.
    base)
        convert -T none -t none -W -m 16
        upload
        ;;
    # As people type it.
    typed)
        convert
        upload
        ;;
    # Compressing the same clusters alone, from memory, on all cores; prints
    # its seconds, which are what counts.
    compress) "$COMPRESS" "$SOURCE" "$COMPRESSION" ;;
    *) echo "error: no way is called $WAY" >&2; exit 2 ;;
esac
