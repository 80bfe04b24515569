# Sourced: a slow or long line. Its far end is a network namespace, in which
# the importing programs run; the web server is at the near end. `tc netem`
# shapes it where the kernel has it, else the program `line` does.

line_near=198.18.0.1    # of the range kept for benchmarks
line_far=198.18.0.2
line_name=hcs-bench-$$
line_pid=
line_by=

# line_up MEGABITS MILLISECONDS MTU: each direction carries MEGABITS a second
# and takes MILLISECONDS.
line_up() {
    local near=hb$$n far=hb$$f
    ip netns add "$line_name"
    if line_netem "$near" "$far" "$1" "$2" 2>/dev/null; then
        line_by="tc netem"
    else
        ip link delete "$near" 2>/dev/null || true
        line_program "$near" "$far" "$1" "$2"
        line_by="bench/src/bin/line.rs"
    fi
    ip address add "$line_near" peer "$line_far" dev "$near"
    ip link set "$near" mtu "$3" up
    ip -n "$line_name" address add "$line_far" peer "$line_near" dev "$far"
    ip -n "$line_name" link set "$far" mtu "$3" up
    ip -n "$line_name" link set lo up
}

line_netem() {
    ip link add "$1" type veth peer name "$2" || return 1
    tc qdisc add dev "$1" root netem rate "$3mbit" delay "$4ms" limit 1000 || return 1
    ip link set "$2" netns "$line_name" || return 1
    tc -n "$line_name" qdisc add dev "$2" root netem rate "$3mbit" delay "$4ms" limit 1000
}

line_program() {
    local ready
    exec {ready}< <(exec "$LINE" "$1" "$2" --megabits "$3" --milliseconds "$4")
    line_pid=$!
    read -r -t 10 -u "$ready" || { echo "error: the line did not come up" >&2; return 1; }
    ip link set "$2" netns "$line_name"
}

line_down() {
    if [ -n "$line_pid" ]; then kill "$line_pid" 2>/dev/null || true; fi
    line_pid=
    ip link delete "hb$$n" 2>/dev/null || true
    if [ -e "/run/netns/$line_name" ]; then ip netns delete "$line_name"; fi
}
