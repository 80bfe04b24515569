# Sourced after tests/phases.sh: the bootable disk of the demonstration, which
# the end-to-end tests boot too. It is kept by what makes it.

bootable_disks=${HCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hypercloud-storage}/demo
bootable_disk=$bootable_disks/debian-$(sha256sum demo/disk.sh | cut -c 1-16).qcow2

make_bootable_disk() {
    if [ ! -f "$bootable_disk" ]; then
        phase "make a bootable Linux disk from Debian's packages"
        demo/disk.sh "$bootable_disk"
        # Only the one that is made now is of use.
        find "$bootable_disks" -name 'debian-*.qcow2' ! -name "${bootable_disk##*/}" -delete
    fi
}
