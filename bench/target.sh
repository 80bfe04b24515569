# Sourced: what images are written onto: loop devices over sparse files that
# are opened with O_DIRECT, and a file. Before every run the target is as a
# new thin volume is: the device discarded as a whole, the file not there.

declare -A target_loops=()

# target_open KIND SIZE: sets TARGET. KIND is `device` or `file`.
target_open() {
    local kind=$1 size=$2 backing=$work/device-$2
    if [ "$kind" = file ]; then
        TARGET=$work/target
        return
    fi
    if [ -z "${target_loops[$size]:-}" ]; then
        truncate --size "$size" "$backing"
        target_loops[$size]=$(losetup --find --show --direct-io=on "$backing")
    fi
    TARGET=${target_loops[$size]}
}

target_fresh() {
    if ! [ -b "$TARGET" ]; then
        rm -f "$TARGET"
    else
        # It says every time that what is there will be lost.
        blkdiscard --force "$TARGET" 2>"$work/said"
    fi
}

# target_settle: the work a way left to the kernel; part of what is timed.
target_settle() {
    if [ -e "$TARGET" ]; then sync "$TARGET"; fi
}

# target_holds RAW: whether the target has the disk, byte by byte, and behind
# it nothing.
target_holds() {
    local size allocated
    size=$(stat --format %s "$1")
    if ! [ -b "$TARGET" ]; then
        cmp "$TARGET" "$1"
        return
    fi
    dd if="$TARGET" bs=4M iflag=direct,count_bytes count="$size" status=none | cmp - "$1" || return 1
    allocated=$(target_data_behind "$size") || return 1
    if [ "$allocated" != 0 ]; then
        echo "error: $allocated bytes are not zero behind the disk's end" >&2
        return 1
    fi
}

# target_data_behind SIZE: how many bytes of the device's file are allocated
# behind SIZE. They were discarded before, so what is there was written.
target_data_behind() {
    local backing
    backing=$(losetup --noheadings --output BACK-FILE "$TARGET")
    qemu-img map --output=json --start-offset="$1" -f raw "$backing" |
        awk -F '[:,]' '/"data": true/ { for (i = 1; i < NF; i++) if ($i ~ /"length"/) sum += $(i + 1) } END { print sum + 0 }'
}

target_end() {
    local loop
    for loop in "${target_loops[@]}"; do losetup --detach "$loop" || true; done
}
