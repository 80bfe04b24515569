# Sourced after local-cluster.sh: the images that the manifests of Rook and CDI
# name, for the local cluster, whose nodes reach no registry. The snapshot
# controller is the real one. Everything else is the simulated Rook.

# Loads them; the folder of this workspace's programs is the argument.
load_storage_images() {
    local names first aliases=() rook=/usr/local/bin/rook
    names=$("$1/test-rook" images)
    first=$(head -n 1 <<<"$names")
    while read -r name; do
        aliases+=(--alias "$name")
    done < <(tail -n +2 <<<"$names")
    # One program under every name by which the manifests call it. The number
    # is the user as whom Rook runs its own.
    "$test_cluster" image load "$first" "${aliases[@]}" \
        --bin "$1/test-rook=$rook" --user 2016:2016 \
        --link "/manager=$rook" \
        --link "/bin/bash=../usr/local/bin/rook" \
        --link "/usr/bin/ceph=$rook" --link "/usr/bin/ceph-mon=$rook" \
        --link "/usr/bin/ceph-mgr=$rook" --link "/usr/bin/ceph-osd=$rook" \
        --link "/usr/bin/radosgw=$rook" --link "/usr/bin/cephcsi=$rook"
    local snapshots=registry.k8s.io/sig-storage/snapshot-controller:v8.5.0
    "$test_cluster" image load "$snapshots" --alias "mirror.test/$snapshots" \
        --bin "$("$test_cluster" program snapshot-controller)=/snapshot-controller" \
        --user 65532:65532
}
