# Sourced: the inputs, each made once from Debian's packages and kept in
# $inputs. They appear under their names only when they are whole.
#
# disk.raw is 10 GiB of ext4 with about 2.5 GiB of files; every other file
# but the small ones is the same disk in another form.

suite=bookworm
disk_size=10G
# Programs, libraries, modules, scripts, headers, translations, manuals: the
# mixture that a server's or a developer's disk holds.
disk_packages=dpkg,apt,systemd-sysv,linux-image-amd64,build-essential,clang
disk_packages+=,python3-scipy,python3-pandas,default-jdk-headless,git,gdb
disk_packages+=,libreoffice-core,postgresql,nginx,nodejs
disk_packages+=,texlive-latex-recommended,vim-nox
small_packages=dpkg,apt,systemd-sysv,linux-image-cloud-amd64

# input NAME: the file's path in `input_path`; the file is made if it is not
# there yet.
input() {
    input_path=$inputs/$1
    [ ! -e "$input_path" ] || return 0
    local new=$inputs/.new.$1 start=$SECONDS
    rm -f "$new"
    echo "making $1" >&2
    make_input "$1" "$new"
    mv "$new" "$inputs/$1"
    input_path=$inputs/$1
    echo "made $1: $(du --block-size=M "$input_path" | cut -f 1)iB on the disk, $((SECONDS - start)) s" >&2
}

make_input() {
    local name=$1 new=$2
    case $name in
        disk.raw) file_system "$disk_size" "$disk_packages" "$new" ;;
        small.raw) file_system 2G "$small_packages" "$new" ;;
        plain.qcow2) qcow2_of disk.raw "$new" ;;
        # In the order of the disk, as `qemu-img convert -c` writes by default.
        zlib.qcow2) qcow2_of disk.raw "$new" -c ;;
        zstd.qcow2) qcow2_of disk.raw "$new" -c -o compression_type=zstd ;;
        small.qcow2) qcow2_of small.raw "$new" -c ;;
        zlib-2m.qcow2) qcow2_of disk.raw "$new" -c -o cluster_size=2M ;;
        zlib-v2.qcow2) qcow2_of disk.raw "$new" -c -o compat=0.10 ;;
        extended.qcow2) qcow2_of disk.raw "$new" -o extended_l2=on,cluster_size=128k ;;
        wide.qcow2) widened zlib.qcow2 "$new" ;;
        wide-2m.qcow2) widened zlib-2m.qcow2 "$new" ;;
        raw.gz) input disk.raw; gzip --stdout "$input_path" > "$new" ;;
        raw.zst) input disk.raw; zstd --quiet --threads=2 --stdout "$input_path" > "$new" ;;
        # The quickest level: what is measured is reading. In several blocks,
        # as `xz -T` writes them.
        raw.xz) input disk.raw; xz -0 --threads=2 --block-size=24MiB --stdout "$input_path" > "$new" ;;
        *) echo "error: no input is called $name" >&2; return 1 ;;
    esac
}

# qcow2_of RAW NEW OPTION...
qcow2_of() {
    input "$1"
    qemu-img convert -f raw -O qcow2 "${@:3}" "$input_path" "$2"
}

# widened QCOW2 NEW: the same disk grown to 2 TiB of zeros, every one of them
# said by an entry of a table that is there.
widened() {
    local gib
    input "$1"
    cp "$input_path" "$2"
    qemu-img resize -q "$2" 2T
    for ((gib = 10; gib < 2048; gib += 1)); do
        echo "write -q -z ${gib}G 1G"
    done | qemu-io -f qcow2 --cache=unsafe "$2" >/dev/null
}

# file_system SIZE PACKAGES NEW: a sparse raw disk, ext4 from end to end, with
# the packages' files.
file_system() (
    set -euo pipefail
    work=$(mktemp -d "$inputs/.work.XXXXXX")
    cleanup() {
        if mountpoint -q "$work/mnt"; then umount "$work/mnt"; fi
        rm -rf "$work"
    }
    trap cleanup EXIT
    # Unpacked and not configured: no script runs, and it is quick.
    mmdebstrap --quiet --variant=extract --mode=root --include="$2" \
        --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
        "$suite" "$work/root.tar"
    truncate --size "$1" "$work/disk"
    mkfs.ext4 -q -F "$work/disk"
    mkdir "$work/mnt"
    mount -o loop "$work/disk" "$work/mnt"
    tar --extract --file "$work/root.tar" --directory "$work/mnt" --numeric-owner
    umount "$work/mnt"
    mv "$work/disk" "$3"
)

# digest FILE: prints its sha256, which is kept beside it.
digest() {
    if [ ! -e "$1.sha256" ]; then
        sha256sum < "$1" | cut -d ' ' -f 1 > "$1.new-sha256"
        mv "$1.new-sha256" "$1.sha256"
    fi
    cat "$1.sha256"
}
