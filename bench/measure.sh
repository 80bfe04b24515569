# Sourced: one run of one way, timed.
#
# The caller has: ways_program, which runs $WAY; target_fresh before it and
# target_settle after it, in the time; measured_bytes, which prints what the
# last column is to hold.

# measure ROW RUN: runs $WAY and writes down a line: row, way, run, seconds
# of wall time, of processor time, peak resident memory in KiB, and bytes. A
# way that fails writes nothing, and its words are shown.
measure() {
    local start end wall cpu rss bytes
    : > "$work/said"
    target_fresh || { failed "$1"; return 1; }
    rm -f "$SCRATCH"
    # The source is in the page cache, and nothing else is being written.
    cat "$INPUT" > /dev/null
    sync --file-system "$work"
    ip tcp_metrics flush >/dev/null 2>&1 || true
    start=${EPOCHREALTIME/./}
    "${place[@]}" /usr/bin/time --quiet --format '%U %S %M' --output "$work/time" \
        "$ways_program" > "$work/said" 2>&1 || { failed "$1"; return 1; }
    target_settle || { failed "$1"; return 1; }
    end=${EPOCHREALTIME/./}
    rm -f "$SCRATCH"
    wall=$(awk -v us=$((end - start)) 'BEGIN { printf "%.3f", us / 1e6 }')
    # What computes only has its own clock: it reads the file first.
    case $WAY in decode | compress) wall=$(cat "$work/said") ;; esac
    read -r cpu rss < <(awk '{ printf "%.2f %d\n", $1 + $2, $3 }' "$work/time")
    bytes=$(measured_bytes)
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$WAY" "$2" "$wall" "$cpu" "$rss" "$bytes" >> "$results"
    printf '  %-10s %8.2f s %8.2f s CPU %6d MiB\n' "$WAY" "$wall" "$cpu" $((rss / 1024)) >&2
}

failed() {
    echo "error: $1, $WAY: failed" >&2
    sed 's/^/    /' "$work/said" >&2
    failures+=("$1 $WAY")
}
