#!/usr/bin/env bash
# Brings the manifests of Rook and the snapshot controller to where a cluster
# without internet has them.
#
# usage: manifests.sh list
#            prints every file as: its path in a mirror, its address
#        manifests.sh fetch FOLDER
#            downloads them below FOLDER, which then is a mirror: to be served
#            by a web server, mounted in the coordinator, or given to `apply`
#        manifests.sh apply FOLDER [RELEASE...]
#            makes a ConfigMap of every release that FOLDER has, or of those
#            that are named, such as rook/v1.20.6; what they are called is what
#            manifests.configMaps is to name
#
# Nothing is checked here: the coordinator compares the checksum of every file.
set -euo pipefail

rook=(v1.20.6 v1.19.10)
rook_files=(crds.yaml common.yaml csi-operator.yaml operator.yaml toolbox.yaml)
snapshotter=(v8.6.0)
snapshotter_files=(
    client/config/crd/snapshot.storage.k8s.io_volumesnapshotclasses.yaml
    client/config/crd/snapshot.storage.k8s.io_volumesnapshotcontents.yaml
    client/config/crd/snapshot.storage.k8s.io_volumesnapshots.yaml
    client/config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshotclasses.yaml
    client/config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshotcontents.yaml
    client/config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshots.yaml
    deploy/kubernetes/snapshot-controller/rbac-snapshot-controller.yaml
    deploy/kubernetes/snapshot-controller/setup-snapshot-controller.yaml
)
namespace=hypercloud-storage

list() {
    local version file
    for version in "${rook[@]}"; do
        for file in "${rook_files[@]}"; do
            echo "rook/$version/$file" \
                "https://raw.githubusercontent.com/rook/rook/$version/deploy/examples/$file"
        done
    done
    for version in "${snapshotter[@]}"; do
        for file in "${snapshotter_files[@]}"; do
            echo "external-snapshotter/$version/$file" \
                "https://raw.githubusercontent.com/kubernetes-csi/external-snapshotter/$version/$file"
        done
    done
}

fetch() {
    local path address
    while read -r path address; do
        echo "$path"
        curl --fail --silent --show-error --location --retry 3 \
            --create-dirs --output "$1/$path" "$address"
    done < <(list)
}

# A ConfigMap holds 1 MiB: files are packed, and those of a release fit in one.
apply() {
    local folder=$1 release file packed name
    shift
    cd "$folder"
    [ $# -gt 0 ] || set -- rook/v* external-snapshotter/v* cdi/v*
    for release; do
        [ -d "$release" ] || continue
        packed=$(mktemp -d)
        find "$release" -name '*.yaml' | while read -r file; do
            gzip -9nc "$file" >"$packed/${file//\//_}.gz"
        done
        name=${release//\//-}
        kubectl -n "$namespace" create configmap "$name" --from-file="$packed" \
            --dry-run=client -o yaml |
            kubectl apply --server-side --force-conflicts -f - >/dev/null
        rm -rf "$packed"
        echo "$name"
    done
}

case ${1-} in
    list) list ;;
    fetch) fetch "${2:?a folder}" ;;
    apply) apply "${@:2}" ;;
    *) sed -n '2,/^set/{/^#/p}' "$0" >&2; exit 2 ;;
esac
