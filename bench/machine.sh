# Sourced: what the figures were measured with. The caller's machine_about
# says what the names mean.

machine() {
    local commit
    commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
    cat <<TEXT
$runs rounds of each row, interleaved, on $(date --utc +%F), commit $commit.

- Machine: $(nproc) processors ($(machine_processor)), $(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo) of memory, $(machine_disk), Linux $(uname -r); load $load_before before, $(machine_load) at the end
TEXT
    machine_about
}

machine_processor() {
    awk -F ': ' '/^model name/ { print $2; found = 1; exit } END { if (!found) print "unknown" }' /proc/cpuinfo
}

machine_disk() { df --output=source,fstype "$work" | awk 'NR == 2 { print $2 " on " $1 }'; }

machine_qemu() { "$QEMU_IMG" --version | head -n 1; }

machine_curl() { curl --version | head -n 1 | cut -d ' ' -f 1-2; }

machine_peer() { chroot "$peers_root" "$1" --version | sed -n 1p; }

# The last minute's, which tells whether the machine was the benchmark's alone.
machine_load() { cut -d ' ' -f 1 /proc/loadavg; }

machine_data() { if [ -e "$inputs/$1" ]; then du --block-size=M "$inputs/$1" | cut -f 1 | sed 's/M/ MiB/'; else echo "no files"; fi; }
