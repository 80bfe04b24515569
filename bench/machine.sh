# Sourced: what the figures were measured with, and what the names mean.

machine() {
    local commit
    commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
    cat <<TEXT
$runs rounds of each row, interleaved, on $(date --utc +%F), commit $commit.

- Machine: $(nproc) processors ($(machine_processor)), $(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo) of memory, $(machine_disk), Linux $(uname -r); load $load_before before, $(machine_load) at the end
- Peers: $("$QEMU_IMG" --version | head -n 1); $(curl --version | head -n 1 | cut -d ' ' -f 1-2)${peers_root:+; $(machine_peer nbdkit), $(machine_peer nbdcopy)}; nginx $(nginx -v 2>&1 | cut -d / -f 2)
- Line of \`slow\`, \`slow-plain\` (100 Mbit/s, 25 ms each way) and \`far\` (10 ms each way, 90 MB/s for each connection): ${line_by:-not used}
- Inputs: a disk of 10 GiB, ext4 with $(machine_data disk.raw) of Debian's files; \`slow\`: 2 GiB with $(machine_data small.raw); \`wide\`: the first, grown to 2 TiB. In the page cache
- Target: a loop device with O_DIRECT over a sparse file, discarded before each run (\`file\`: a new file); the time ends when the target is flushed
- Ways: \`base\` is curl to a scratch file (decompressed by one thread of pigz, zstd or xz), then \`qemu-img convert -n -t none -W -m 16\`; \`local\` the latter alone, from a local file; \`nbdkit\` its curl plugin and qcow2dec filter into nbdcopy; \`decode\` decoding alone, from memory; \`curl\` to /dev/null; \`hcs-sha256\` with \`--checksum\`, \`hcs-16\` with \`--connections 16\`
TEXT
}

machine_processor() {
    awk -F ': ' '/^model name/ { print $2; found = 1; exit } END { if (!found) print "unknown" }' /proc/cpuinfo
}

machine_disk() { df --output=source,fstype "$work" | awk 'NR == 2 { print $2 " on " $1 }'; }

machine_peer() { chroot "$peers_root" "$1" --version | sed -n 1p; }

# The last minute's, which tells whether the machine was the benchmark's alone.
machine_load() { cut -d ' ' -f 1 /proc/loadavg; }

machine_data() { if [ -e "$inputs/$1" ]; then du --block-size=M "$inputs/$1" | cut -f 1 | sed 's/M/ MiB/'; else echo "no files"; fi; }
