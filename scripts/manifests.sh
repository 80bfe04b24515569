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
#        manifests.sh images FOLDER
#            prints every image that the releases in FOLDER run, for the mirrors
#            of registries: those that the manifests name, and those that the
#            coordinator does
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

# The coordinator's own images of a release of Rook: Ceph's, and those that the
# release has built in.
images_of_rook() {
    local storage ceph version=${1#v}
    storage=$(dirname "${BASH_SOURCE[0]}")/../storage/src
    ceph=$(sed -nE 's/.*format!\("(.*)\{ceph\}"\).*/\1/p' "$storage/render.rs")
    awk -v wanted="${version//./, }" -v ceph="$ceph" '
        /^pub const ROOK:/ { within = 1 }
        /^\];/ { within = 0 }
        within && /^ +version: / { of = index($0, "(" wanted ")") }
        within && of && /^ +ceph: / {
            gsub(/[^0-9,)]/, "")
            count = split($0, versions, ")")
            for (i = 1; i < count; i++) {
                gsub(/^,+/, "", versions[i])
                gsub(",", ".", versions[i])
                print ceph versions[i]
            }
        }
        within && of && match($0, /"[^" ]+\/[^" ]+"/) {
            print substr($0, RSTART + 1, RLENGTH - 2)
        }' "$storage/version/table.rs"
}

images() {
    local path release
    {
        # The toolbox is given the image of the Ceph that runs.
        {
            list | cut -d ' ' -f 1 | grep -v '/toolbox\.yaml$'
            (cd "$1" && find . -path './cdi/v*/cdi-operator.yaml')
        } | while read -r path; do
            [ -f "$1/$path" ] || continue
            # An image stands in a field of that name, or is the whole value
            # of another field or variable.
            sed -nE -e 's/^ *(- )?image: +"?([^" #]+)"?$/\2/p' -e t \
                -e 's/^ *(- )?[A-Za-z_]+: +"?([a-z0-9-]+(\.[a-z0-9-]+)+\/[^" #]+[:@][^" #/]+)"?$/\2/p' \
                "$1/$path"
        done
        for release in "$1"/rook/v*; do
            [ -d "$release" ] || continue
            images_of_rook "${release##*/}"
        done
    } | sort -u
}

case ${1-} in
    list) list ;;
    fetch) fetch "${2:?a folder}" ;;
    apply) apply "${@:2}" ;;
    images) images "${2:?a folder}" ;;
    *) sed -n '2,/^set/{/^#/p}' "$0" >&2; exit 2 ;;
esac
