#!/usr/bin/env bash
# Installs, on Debian or Ubuntu as root, the packages that building, testing
# and demonstrating need; says what is missing anywhere else.
#
# usage: packages.sh [FILE:PACKAGE...], which are needed too
set -euo pipefail
. "$(dirname "$0")/path.sh"

# What is needed, by the file that proves it is there.
needs=(
    /usr/bin/cc:gcc
    /usr/bin/make:make
    /usr/include/stdio.h:libc6-dev
    /usr/bin/pkg-config:pkg-config
    /usr/bin/curl:curl
    /usr/bin/git:git
    /etc/ssl/certs/ca-certificates.crt:ca-certificates
    /usr/bin/qemu-img:qemu-utils
    /usr/bin/mmdebstrap:mmdebstrap
    /usr/bin/extlinux:extlinux
    /usr/lib/EXTLINUX/mbr.bin:syslinux-common
    /usr/sbin/sfdisk:fdisk
    /usr/sbin/mkfs.ext4:e2fsprogs
    /usr/sbin/losetup:mount
    /usr/sbin/mkfs.xfs:xfsprogs
    /usr/sbin/mkfs.btrfs:btrfs-progs
    /usr/sbin/pvcreate:lvm2
    /usr/sbin/cryptsetup:cryptsetup-bin
    /usr/lib/systemd/systemd-udevd:udev
    /usr/sbin/nginx:nginx-light
    /usr/sbin/ip:iproute2
    /usr/bin/python3:python3
    /usr/share/doc/python3-venv:python3-venv
    /usr/share/keyrings/debian-archive-keyring.gpg:debian-archive-keyring
    "$@"
)

missing=()
for need in "${needs[@]}"; do
    file=${need%%:*}
    # Both layouts: with and without the merged /usr.
    if [ ! -e "$file" ] && [ ! -e "${file#/usr}" ]; then missing+=("${need##*:}"); fi
done
for tool in cargo go; do
    if ! command -v "$tool" >/dev/null; then
        echo "error: $tool is not there; install Rust (https://rustup.rs) and Go (https://go.dev/dl)" >&2
        exit 1
    fi
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
    echo "error: missing: ${missing[*]}; install them, or run as root on Debian or Ubuntu" >&2
    exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
# A web server that was not there before is not to serve by itself: it is
# started by whoever needs it, on a port of its own.
case " ${missing[*]} " in
    *" nginx-light "*)
        if command -v systemctl >/dev/null; then systemctl disable --now nginx >/dev/null 2>&1 || true; fi
        ;;
esac
