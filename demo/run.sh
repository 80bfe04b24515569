#!/usr/bin/env bash
# The demonstration: a bootable Linux disk, served as compressed qcow2 over
# HTTP, becomes an image on a real Kubernetes; a disk is cloned from it and
# compared byte for byte with what qemu-img makes of the file; a machine boots
# from that disk, in a pod as KubeVirt would make it; and the disk, with what
# the machine wrote, leaves for an object store, from where anybody fetches it.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/phases.sh
. tests/local-cluster.sh
. demo/bootable.sh
. scripts/serve.sh
. scripts/store.sh
. demo/steps.sh

name=debian
disk=vm-root-disk
export=vm-root-export
bucket=vm-image
namespace=demo
work=$(mktemp -d)
cleanup() {
    if [ -n "$watch_pid" ]; then kill "$watch_pid" 2>/dev/null || true; fi
    serve_end
    store_end
    rm -rf "$work"
}
trap cleanup EXIT

make_bootable_disk
phases_end
machine_image=${HCS_E2E_MACHINE_IMAGE:-}
tests/system-up.sh
if [ -z "${KUBECONFIG:-}" ]; then
    use_local_cluster
    machine_image=${machine_image:-hcs-test/machine:1}
fi
cargo build --quiet --workspace --bins
programs=$(dirname "$test_cluster")
class=${HCS_E2E_STORAGE_CLASS:-loopfile}
shell_image=${HCS_E2E_SHELL_IMAGE:-hcs-test/busybox:1}

phase "serve the disk over HTTP"
node_ip=$(kubectl get nodes --output jsonpath='{.items[0].status.addresses[?(@.type=="InternalIP")].address}')
# The address from which this machine speaks to the cluster's first node.
host_ip=$(ip -oneline route get "$node_ip" | sed -n 's/.* src \([^ ]*\).*/\1/p')
serve "$host_ip" "$bootable_disks" "$work"
url=http://$host_ip:$serve_port/${bootable_disk##*/}
echo "   $url ($(du -h "$bootable_disk" | cut -f1) compressed)"

phase "import it: VirtualMachineImage/$name"
kubectl create namespace $namespace --dry-run=client --output yaml | kubectl apply --filename - >/dev/null
demo delete pod compare machine --ignore-not-found >/dev/null
demo delete virtualmachinevolumeexport $export --ignore-not-found >/dev/null
demo delete virtualmachinepvc $disk --ignore-not-found >/dev/null
# Its claim is taken away behind it.
demo wait persistentvolumeclaim $disk --for=delete --timeout=60s >/dev/null
demo delete virtualmachineimage $name --ignore-not-found >/dev/null
demo apply --filename - <<YAML
apiVersion: hypercloud.tmaxanc.com/v1alpha1
kind: VirtualMachineImage
metadata: {name: $name}
spec:
  storageClassName: $class
  source:
    http: $url
YAML
reach virtualmachineimage $name Ready
demo get virtualmachineimage,persistentvolumeclaim
demo get virtualmachineimage $name --output \
    jsonpath='{"   "}{.status.transfer.bytesReceived}{" bytes received, "}{.status.transfer.bytesWritten}{" written on "}{.status.transfer.nodeName}{"\n"}'

phase "clone a disk from it, and compare it with qemu-img's: VirtualMachinePvc/$disk"
demo apply --filename - <<YAML
apiVersion: hypercloud.tmaxanc.com/v1alpha1
kind: VirtualMachinePvc
metadata: {name: $disk}
spec:
  virtualMachineImageName: $name
  pvc:
    accessModes: [ReadWriteOnce]
    resources: {requests: {storage: 4Gi}}
YAML
size=$(demo get virtualmachineimage $name --output jsonpath='{.status.source.virtualSize}')
qemu-img convert -O raw "$bootable_disk" "$work/expected.raw"
expected=$(sha256sum < "$work/expected.raw" | cut -d ' ' -f 1)
rm "$work/expected.raw"
# Classes that wait for a first consumer give the disk its volume now.
found=$(run_pod compare "$shell_image" /bin/sh -c "set -o pipefail; head -c $size /dev/disk | sha256sum")
found=${found%% *}
reach virtualmachinepvc $disk Ready
echo "   qemu-img: $expected"
echo "   disk:     $found"
if [ "$expected" != "$found" ]; then
    echo "error: the disk differs from qemu-img's" >&2
    exit 1
fi
echo "   the same, byte for byte"

if [ -n "$machine_image" ]; then
    phase "boot it, in a pod as KubeVirt would make it"
    run_pod machine "$machine_image" /usr/bin/test-machine /dev/disk -- 'uname --kernel-release' \
        'findmnt --noheadings --output SOURCE,SIZE,FSTYPE /' > "$work/console"
    # As whom, the last lines to the prompt, what was said there, and the end.
    {
        sed --quiet 1p "$work/console"
        echo ...
        sed '/^== 2: exit/q' "$work/console" | tail --lines 24
        echo ...
        sed --quiet '$p' "$work/console"
    } | sed 's/^/   /'
else
    echo "   HCS_E2E_MACHINE_IMAGE names no image that boots disks: this one is not booted"
fi

phase "export it to an object store: kubectl hcs export $disk s3://$bucket/$disk"
store_up "$programs/test-store" "$host_ip" "$work" $bucket
demo create secret generic store-keys --dry-run=client --output yaml \
    --from-literal=accessKeyId="$AWS_ACCESS_KEY_ID" --from-literal=secretKey="$AWS_SECRET_ACCESS_KEY" |
    demo apply --filename - >/dev/null
"$programs/kubectl-hcs" export $disk s3://$bucket/$disk --namespace $namespace --name $export \
    --endpoint "$store_url" --secret store-keys --download-url 1h
demo get virtualmachinevolumeexport $export

phase "fetch the object as anybody does, and compare it with the disk"
# The address lets in by itself, and so stands in a Secret.
url=$(demo get secret $export-download --output jsonpath='{.data.url}' | base64 --decode)
curl --silent --show-error --fail --noproxy '*' --output "$work/object.qcow2" "$url"
echo "   ${url%%\?*}: $(stat --format %s "$work/object.qcow2") bytes"
qemu-img check "$work/object.qcow2" | sed 's/^/   /'
# The disk as a pod sees it, and the object as qemu-img does.
size=$(demo get virtualmachinevolumeexport $export --output jsonpath='{.status.disk.virtualSize}')
found=$(run_pod compare "$shell_image" /bin/sh -c "set -o pipefail; head -c $size /dev/disk | sha256sum")
found=${found%% *}
qemu-img convert -O raw "$work/object.qcow2" "$work/object.raw"
expected=$(sha256sum < "$work/object.raw" | cut -d ' ' -f 1)
rm "$work/object.raw"
echo "   object:   $expected"
echo "   disk:     $found"
if [ "$expected" != "$found" ]; then
    echo "error: the object differs from the disk" >&2
    exit 1
fi
echo "   the same, byte for byte"
phases_end

cat <<NEXT

The image and the disk stand in namespace $namespace. To look around:
  export KUBECONFIG=$KUBECONFIG PATH=\$PATH:$(dirname "$(command -v kubectl)")
  kubectl --namespace $namespace describe virtualmachineimage $name
  kubectl --namespace $namespace describe virtualmachinepvc $disk
  kubectl --namespace $namespace describe virtualmachinevolumeexport $export
  kubectl --namespace $namespace get events
  kubectl --namespace hypercloud-storage logs daemonset/node-agent
  kubectl --namespace $namespace delete virtualmachinevolumeexport $export
  kubectl --namespace $namespace delete virtualmachinepvc $disk
  kubectl --namespace $namespace delete virtualmachineimage $name    # nothing stays
  make cluster-down                                       # nor of the cluster
NEXT
