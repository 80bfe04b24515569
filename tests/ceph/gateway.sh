#!/usr/bin/env bash
# A real Ceph on this machine, as small as it can be: one monitor, one OSD
# whose objects are in memory, and the object gateway, all of them processes
# of whoever calls this, in a folder that is taken away again.
#
# usage: gateway.sh up FOLDER PORT...   the gateway listens on the first port of
#                                       127.0.0.1, Ceph itself on two more
#        gateway.sh down FOLDER
#
# The keys that let in are those of the environment: AWS_ACCESS_KEY_ID and
# AWS_SECRET_ACCESS_KEY.
set -euo pipefail
. "$(dirname "$0")/../../scripts/path.sh"

command=$1
folder=$(realpath -m "$2")
conf=$folder/ceph.conf

wait_for() {
    local what=$1 deadline=$((SECONDS + 90))
    shift
    until "$@" >"$folder/said" 2>&1; do
        if [ $SECONDS -gt $deadline ]; then
            cat "$folder/said" "$folder"/*.log >&2
            echo "error: $what: not within 90 s" >&2
            return 1
        fi
        read -r -t 0.3 <> <(:) || true
    done
}

ceph_says() { timeout 10 ceph --conf "$conf" "$@"; }
osd_is_up() { ceph_says osd stat | grep -q '1 up'; }
gateway_answers() { curl --silent --fail --noproxy '*' --output /dev/null "http://127.0.0.1:$port/"; }

up() {
    local fsid osd monitors
    port=$1
    mkdir -p "$folder"/{monitor,osd,run}
    fsid=$(cat /proc/sys/kernel/random/uuid)
    monitors="[v2:127.0.0.1:$2,v1:127.0.0.1:$3]"
    # No secrets among its own parts, which nobody but this machine reaches.
    cat > "$conf" <<CONF
[global]
fsid = $fsid
mon host = $monitors
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
public network = 127.0.0.0/8
public addr = 127.0.0.1
cluster addr = 127.0.0.1
run dir = $folder/run
admin socket = $folder/run/\$name.asok
log file = $folder/\$name.log
mon data = $folder/monitor
mon allow pool size one = true
mon pg warn min per osd = 0
mon data avail crit = 1
osd data = $folder/osd
osd objectstore = memstore
memstore device bytes = 4294967296
osd crush chooseleaf type = 0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
rgw data = $folder/run
rgw thread pool size = 32
keyring = $folder/keyring
CONF
    touch "$folder/keyring"
    monmaptool --create --fsid "$fsid" --addv a "$monitors" "$folder/monmap" >/dev/null
    ceph-mon --conf "$conf" --mkfs --id a --monmap "$folder/monmap"
    ceph-mon --conf "$conf" --id a --pid-file "$folder/monitor.pid"
    wait_for "the monitor answers" ceph_says mon stat
    osd=$(cat /proc/sys/kernel/random/uuid)
    ceph_says osd new "$osd" >/dev/null
    ceph-osd --conf "$conf" --id 0 --mkfs --osd-uuid "$osd" >/dev/null 2>&1
    ceph-osd --conf "$conf" --id 0 --pid-file "$folder/osd.pid" >/dev/null 2>&1
    wait_for "the OSD is up" osd_is_up
    radosgw-admin --conf "$conf" user create --uid tests --display-name tests \
        --access-key "$AWS_ACCESS_KEY_ID" --secret "$AWS_SECRET_ACCESS_KEY" >/dev/null 2>"$folder/said" ||
        { cat "$folder/said" >&2; return 1; }
    timeout 120 radosgw --conf "$conf" --name client.gateway --pid-file "$folder/gateway.pid" \
        --rgw-frontends "beast endpoint=127.0.0.1:$port"
    wait_for "the gateway answers" gateway_answers
}

down() {
    local file
    # Who uses it first.
    for file in gateway osd monitor; do
        if [ -s "$folder/$file.pid" ]; then
            kill -KILL "$(cat "$folder/$file.pid")" 2>/dev/null || true
        fi
    done
    rm -rf "$folder"
}

case $command in
    up) up "$3" "$4" "$5" ;;
    down) down ;;
    *) echo "usage: gateway.sh up FOLDER PORT PORT PORT | down FOLDER" >&2; exit 2 ;;
esac
