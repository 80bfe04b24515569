# Sourced: an S3 server on a port that is free, with keys of its own. What it
# holds goes with it.

store_pid=
store_url=

# store_up PROGRAM ADDRESS FOLDER BUCKET: starts the program of tests/store on
# ADDRESS, with its bytes in FOLDER. Sets store_url and store_pid, and the
# keys in the environment.
store_up() {
    local said
    AWS_ACCESS_KEY_ID=AKID$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
    AWS_SECRET_ACCESS_KEY=$(od -An -N20 -tx1 /dev/urandom | tr -d ' \n')
    AWS_REGION=us-east-1
    export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION
    exec {said}< <(exec "$1" --listen "$2:0" --folder "$3" --bucket "$4")
    store_pid=$!
    if ! read -r -t 10 -u "$said" store_url; then
        echo "error: no object store came up on $2" >&2
        return 1
    fi
    store_url=http://$store_url
}

store_end() {
    if [ -n "$store_pid" ]; then kill "$store_pid" 2>/dev/null || true; fi
    store_pid=
}
