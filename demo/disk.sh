#!/usr/bin/env bash
# Makes a bootable Linux disk from Debian's packages: a partition table, an
# ext4 root with the cloud kernel, a boot loader, a login on the serial
# console. Prints nothing but its steps; the disk appears under its name only
# when it is whole.
#
# usage: disk.sh TARGET.qcow2
set -euo pipefail
. "$(dirname "$0")/../scripts/path.sh"

target=$1
suite=bookworm
size=3G                 # what a guest sees
root_password=hypercloud

say() { printf '   %s\n' "$*"; }

folder=$(dirname "$target")
mkdir -p "$folder"
work=$(mktemp -d "$folder/.disk.XXXXXX")
loop=
cleanup() {
    if mountpoint -q "$work/mnt"; then umount "$work/mnt"; fi
    if [ -n "$loop" ]; then losetup --detach "$loop"; fi
    rm -rf "$work"
}
trap cleanup EXIT

say "packages of Debian $suite into a root file system"
# Ubuntu's apt does not know Debian's keys by itself. Emulated on a busy host
# a machine is slow: its console may come late, but it has to come.
mmdebstrap --quiet --variant=minbase --mode=root \
    --include=linux-image-cloud-amd64,systemd-sysv,udev,dbus,iproute2,ifupdown,isc-dhcp-client,openssh-server,ca-certificates \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --customize-hook="echo root:$root_password | chroot \"\$1\" chpasswd" \
    --customize-hook='echo hypercloud-demo > "$1/etc/hostname"' \
    --customize-hook='printf "/dev/vda1 / ext4 defaults,errors=remount-ro 0 1\n" > "$1/etc/fstab"' \
    --customize-hook='chroot "$1" systemctl --quiet enable serial-getty@ttyS0.service' \
    --customize-hook='chroot "$1" systemctl --quiet mask e2scrub_reap.service e2scrub_all.timer' \
    --customize-hook='mkdir "$1/etc/systemd/system.conf.d"' \
    --customize-hook='printf "[Manager]\nDefaultTimeoutStartSec=10min\nDefaultDeviceTimeoutSec=10min\n" > "$1/etc/systemd/system.conf.d/patience.conf"' \
    --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
    "$suite" "$work/root.tar"

say "a disk of $size with a partition, a root and a boot loader"
truncate --size "$size" "$work/disk.raw"
printf 'label: dos\nstart=2048, type=83, bootable\n' | sfdisk --quiet "$work/disk.raw"
loop=$(losetup --find --show --offset $((2048 * 512)) "$work/disk.raw")
# The boot loader reads ext4 without these features.
mkfs.ext4 -q -L root -O '^64bit,^metadata_csum,^orphan_file' "$loop" 2>/dev/null ||
    mkfs.ext4 -q -L root -O '^64bit,^metadata_csum' "$loop"
mkdir "$work/mnt"
mount "$loop" "$work/mnt"
tar --extract --file "$work/root.tar" --directory "$work/mnt" --numeric-owner
mkdir -p "$work/mnt/boot/extlinux"
kernel=$(basename "$(ls "$work"/mnt/boot/vmlinuz-*)")
cat > "$work/mnt/boot/extlinux/extlinux.conf" <<CONF
SERIAL 0 115200
DEFAULT linux
LABEL linux
  LINUX /boot/$kernel
  INITRD /boot/${kernel/vmlinuz/initrd.img}
  APPEND root=/dev/vda1 ro console=ttyS0,115200
CONF
extlinux --install "$work/mnt/boot/extlinux" 2>/dev/null
umount "$work/mnt"
losetup --detach "$loop"
loop=
dd if=/usr/lib/EXTLINUX/mbr.bin of="$work/disk.raw" conv=notrunc status=none

say "compressed qcow2"
qemu-img convert -f raw -O qcow2 -c "$work/disk.raw" "$work/disk.qcow2"
mv "$work/disk.qcow2" "$target"
