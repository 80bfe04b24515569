# Sourced: the rows of the table. A row is one input, one road to it, one
# target and the ways that are compared on them.

# row       input          road           target  ways
rows_table='
zlib        zlib.qcow2     loopback       device  hcs hcs-sha256 base nbdkit local decode
zstd        zstd.qcow2     loopback       device  hcs hcs-sha256 base nbdkit local decode
plain       plain.qcow2    loopback       device  hcs hcs-sha256 base nbdkit local
file        zlib.qcow2     loopback       file    hcs base
zlib-v2     zlib-v2.qcow2  loopback       device  hcs base
zlib-2m     zlib-2m.qcow2  loopback       device  hcs base
extended    extended.qcow2 loopback       device  hcs base
raw         disk.raw       loopback       device  hcs base nbdkit
gz          raw.gz         loopback       device  hcs base
zst         raw.zst        loopback       device  hcs base
xz          raw.xz         loopback       device  hcs base
noranges    zlib.qcow2     noranges       device  hcs curl
gigabit     zlib.qcow2     gigabit        device  hcs curl
slow        small.qcow2    slow           device  hcs curl
slow-plain  small.qcow2    slow-noranges  device  hcs curl
far         zlib.qcow2     far            device  hcs hcs-16 base
wide        wide.qcow2     loopback       wide    hcs
wide-2m     wide-2m.qcow2  loopback       wide    hcs
'

ways_program=bench/ways.sh

# What the last column of the results holds.
measured_bytes() { stat --format %s "$INPUT"; }

rows_all() { awk 'NF { print $1 }' <<< "$rows_table"; }

# row_read ROW: sets row_input, row_road, row_target and the list row_ways.
row_read() {
    local ways
    read -r row_input row_road row_target ways < <(
        awk -v row="$1" '$1 == row { $1 = ""; print }' <<< "$rows_table") || {
        echo "error: no row is called $1; there are: $(rows_all | tr '\n' ' ')" >&2
        return 2
    }
    read -r -a row_ways <<< "$ways"
}

# machine_about: what the rows and ways of the table are.
machine_about() {
    cat <<TEXT
- Peers: $(machine_qemu); $(machine_curl)${peers_root:+; $(machine_peer nbdkit), $(machine_peer nbdcopy)}; nginx $(nginx -v 2>&1 | cut -d / -f 2)
- Line of \`slow\`, \`slow-plain\` (100 Mbit/s, 25 ms each way) and \`far\` (10 ms each way, 90 MB/s for each connection): ${line_by:-not used}
- Inputs: a disk of 10 GiB, ext4 with $(machine_data disk.raw) of Debian's files; \`slow\`: 2 GiB with $(machine_data small.raw); \`wide\`: the first, grown to 2 TiB. In the page cache
- Target: a loop device with O_DIRECT over a sparse file, discarded before each run (\`file\`: a new file); the time ends when the target is flushed
- Ways: \`base\` is curl to a scratch file (decompressed by one thread of pigz, zstd or xz), then \`qemu-img convert -n -t none -W -m 16\`; \`local\` the latter alone, from a local file; \`nbdkit\` its curl plugin and qcow2dec filter into nbdcopy; \`decode\` decoding alone, from memory; \`curl\` to /dev/null; \`hcs-sha256\` with \`--checksum\`, \`hcs-16\` with \`--connections 16\`
TEXT
}

# row_environment: what bench/ways.sh is told, but for WAY.
row_environment() {
    local raw=disk.raw size=10G address=127.0.0.1 port=$loopback_port folder=
    input "$row_input"
    INPUT=$input_path
    case $row_input in
        *.qcow2) FORMAT=qcow2 ;;
        disk.raw) FORMAT=raw ;;
        *) FORMAT=${row_input##*.} ;;
    esac
    case $row_input in small.*) raw=small.raw ;; esac
    input "$raw"
    row_disk=$input_path
    case $row_target in wide) size=2T ;; esac
    target_open "$row_target" "$size"
    case $row_road in
        noranges | slow-noranges) folder=noranges/ ;;
        gigabit) folder=gigabit/ ;;
        far) folder=far/ ;;
    esac
    place=()
    case $row_road in
        slow | slow-noranges) line_up 100 25 1500 ;;
        # What limits is the server; few large packets spare the processors.
        far) line_up 20000 10 60000 ;;
    esac
    case $row_road in
        slow | slow-noranges | far)
            road_serve "$line_near"
            address=$line_near port=$serve_port
            place=(ip netns exec "$line_name")
            ;;
    esac
    URL=http://$address:$port/$folder$row_input
    SCRATCH=$work/scratch
    SHA256=
    case " ${row_ways[*]} " in *" hcs-sha256 "*) SHA256=$(digest "$INPUT") ;; esac
    case " ${row_ways[*]} " in *" nbdkit "*) peers ;; esac
    PEERS=${peers_root:-}
    export INPUT FORMAT TARGET URL SCRATCH SHA256 PEERS
}

# road_serve ADDRESS: the inputs on a web server, and below other folders
# without ranges, without ranges at 1 Gbit/s, and with 90 MB/s at most for
# each connection.
road_serve() {
    mkdir -p "$work/www-$1"
    serve "$1" "$inputs" "$work/www-$1" "
        location /noranges/ { alias $inputs/; max_ranges 0; }
        location /gigabit/ { alias $inputs/; max_ranges 0; limit_rate 122070k; }
        location /far/ { alias $inputs/; limit_rate 87890k; }"
}

# row_run ROW: an uncounted run of each way, which is checked, then the rounds
# of all of them, every other one backwards.
row_run() {
    local row=$1 run rounds=$runs way good=()
    row_read "$row"
    echo "$row: ${row_ways[*]}" >&2
    row_environment
    case $row in
        xz) rounds=${RUNS_XZ:-$((runs < 3 ? runs : 3))} ;;
        wide*) rounds=1 ;;
    esac
    for way in "${row_ways[@]}"; do
        if [ "$way" = hcs-sha256 ] && ! "$HCS" image import --help | grep -q -- --checksum; then
            echo "  hcs-sha256: left out, this hcs has no --checksum" >&2
            continue
        fi
        WAY=$way measure "$row" 0 || { if [ "$way" = hcs ]; then break; else continue; fi; }
        case $way in
            curl | decode) ;;
            *) target_holds "$row_disk" || { failures+=("$row $way: another disk"); continue; } ;;
        esac
        good+=("$way")
    done
    # Nothing to compare the others with.
    case " ${good[*]} " in *" hcs "*) ;; *) rounds=0 ;; esac
    for ((run = 1; run <= rounds; run++)); do
        for way in "${good[@]}"; do
            WAY=$way measure "$row" "$run" || true
        done
        mapfile -t good < <(printf '%s\n' "${good[@]}" | tac)
    done
    case $row_road in slow* | far) serve_end; serve_pid=; line_down ;; esac
}
