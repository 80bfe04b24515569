# Sourced: a web server for a folder, on a port that is free.

serve_pid=
serve_port=

# serve ADDRESS FOLDER WORK [MORE]: serves FOLDER on ADDRESS, with its files in
# WORK; MORE is what else the server's configuration says. Sets serve_port and
# serve_pid.
serve() {
    local port
    for port in {18080..18119}; do
        cat > "$3/nginx.conf" <<CONF
user root;
worker_processes 1;
daemon off;
pid $3/nginx.pid;
error_log $3/error.log;
events {}
http { access_log off; sendfile on; server { listen $1:$port; root $2; ${4:-} } }
CONF
        nginx -c "$3/nginx.conf" -e "$3/error.log" 2>"$3/nginx.log" & serve_pid=$!
        # Its own pid file: another server on the port is not this one.
        while kill -0 $serve_pid 2>/dev/null; do
            if [ "$(cat "$3/nginx.pid" 2>/dev/null)" = $serve_pid ] &&
                curl --silent --output /dev/null "http://$1:$port/"; then
                serve_port=$port
                return
            fi
            read -r -t 0.1 <> <(:) || true
        done
        wait $serve_pid || true
    done
    cat "$3/nginx.log" >&2
    echo "error: no web server came up on $1" >&2
    return 1
}

serve_end() {
    if [ -n "$serve_pid" ]; then
        kill "$serve_pid" 2>/dev/null || true
        wait "$serve_pid" 2>/dev/null || true
    fi
}
