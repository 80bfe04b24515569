#!/usr/bin/env bash
# Times walks of many devices beside lsblk, in interleaved rounds, and prints a
# table in Markdown: medians, smallest and largest, in milliseconds of
# processor time.
#
#   DEVICES=500  devices of the node that is made up
#   RUNS=9       counted rounds; one more comes first
#   WALK=...     the program bench/src/bin/devices.rs, if it is built already;
#                likewise HCS
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/path.sh
. bench/machine.sh

runs=${RUNS:-9}
devices=${DEVICES:-500}
profile=
if [ -z "${WALK:-}" ]; then
    cargo build --quiet --release --package hypercloud-cli --package hypercloud-bench --bins
    profile=release
    WALK=${CARGO_TARGET_DIR:-target}/release/devices
    HCS=${CARGO_TARGET_DIR:-target}/release/hcs
fi
HCS=${HCS:-$(dirname "$WALK")/hcs}
work=$(mktemp -d "${TMPDIR:-/tmp}/hcs-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
results=$work/results.tsv
load_before=$(machine_load)

"$WALK" make "$work/node" "$devices"
# lsblk wants files in place of the devices; hcs would look into them.
"$WALK" make "$work/node-with-files" "$devices" --files

# process ROW WAY RUN WORDS...: a whole process, with its start and its output.
process() {
    local row=$1 way=$2 run=$3 spent
    shift 3
    spent=$( { TIMEFORMAT='%3U %3S'; time "$@" > "$work/out" 2> "$work/said"; } 2>&1 ) || {
        echo "error: $row, $way: failed" >&2
        cat "$work/said" >&2
        exit 1
    }
    awk -v row="$row" -v way="$way" -v run="$run" \
        '{ printf "%s\t%s\t%s\t%.1f\n", row, way, run, ($1 + $2) * 1000 }' <<< "$spent" >> "$results"
}

# walk ROW RUN FOLDER: the walk and its classification alone.
walk() {
    local told
    told=$("$WALK" walk "$3")
    echo "${told% *}" > "$work/count-$1"
    printf '%s\twalk\t%s\t%s\n' "$1" "$2" "${told#* }" >> "$results"
}

for run in $(seq 0 "$runs"); do
    walk made "$run" "$work/node"
    process made hcs "$run" "$HCS" devices --root "$work/node" -o json
    if [ "$run" = 0 ]; then
        "$WALK" walk "$work/node" | grep -q "^$devices " || { echo "error: devices are missing" >&2; exit 1; }
    fi
    process made lsblk "$run" lsblk --sysroot "$work/node-with-files" --json --output-all
    if [ "$run" = 0 ]; then
        # Of a record that it does not understand it would tell nothing quickly.
        found=$(grep -c '"maj:min"' "$work/out" || true)
        [ "$found" = "$devices" ] || { echo "error: lsblk found $found devices of $devices" >&2; exit 1; }
    fi
    walk here "$run" /
    process here hcs "$run" "$HCS" devices -o json
    process here lsblk "$run" lsblk --json --output-all
done

cat <<TEXT
$runs rounds, interleaved, on $(date --utc +%F), commit $(git describe --always --dirty 2>/dev/null || echo unknown)${profile:+, release build}.

- Machine: $(nproc) processors ($(machine_processor)), Linux $(uname -r); load $load_before before, $(machine_load) at the end
- \`made\`: a record of a node with $devices devices, in the page cache. \`here\`: this machine, $(cat "$work/count-here") devices, opened and looked into
- Ways: \`walk\` is the walk and its classification, as an agent makes it; \`hcs\` the whole of \`hcs devices -o json\`; \`lsblk\` that of \`lsblk -J -O\` ($(lsblk --version))

| row | way | CPU, ms |
|---|---|---|
TEXT
awk -F '\t' '
    # The first round only warms up.
    $3 > 0 { key = $1 " | " $2; if (!(key in count)) order[++keys] = key; values[key, ++count[key]] = $4 + 0 }
    END {
        for (k = 1; k <= keys; k++) {
            key = order[k]; n = count[key]
            for (i = 1; i <= n; i++) {
                v = values[key, i]
                for (j = i - 1; j >= 1 && at[j] > v; j--) at[j + 1] = at[j]
                at[j + 1] = v
            }
            middle = (at[int((n + 1) / 2)] + at[int((n + 2) / 2)]) / 2
            printf "| %s | %.1f (%.1f..%.1f) |\n", key, middle, at[1], at[n]
            if (key == "made | walk") bar = middle
        }
        printf "\nThe bar, a walk of 500 devices in less than 50 ms of CPU: %.1f, %s.\n", bar, bar < 50 ? "met" : "**not met**"
    }' "$results"
