# Sourced: nbdkit and nbdcopy of one Debian release, whatever runs here: older
# ones cannot read qcow2. They lie unpacked in a folder and run in a chroot.

peers_suite=trixie

# peers: sets peers_root, made if it is not there yet.
peers() {
    peers_root=$cache/peers-$peers_suite-1
    [ ! -d "$peers_root" ] || return 0
    echo "unpacking nbdkit and nbdcopy of Debian $peers_suite" >&2
    rm -rf "$peers_root.new"
    mmdebstrap --quiet --variant=extract --mode=root \
        --include=base-files,dash,libnbd-bin,nbdkit \
        --keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
        "$peers_suite" "$peers_root.new"
    mv "$peers_root.new" "$peers_root"
}
