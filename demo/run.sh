#!/usr/bin/env bash
# The demonstration: a bootable Linux disk, served as compressed qcow2 over
# HTTP, becomes a volume on a real Kubernetes, and is compared byte for byte
# with what qemu-img makes of it.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/phases.sh
. tests/local-cluster.sh
. scripts/serve.sh

cache=${HCS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hypercloud-storage}/demo
name=debian
namespace=demo
image=$cache/debian-bookworm-1.qcow2
work=$(mktemp -d)
watch_pid=
cleanup() {
    if [ -n "$watch_pid" ]; then kill "$watch_pid" 2>/dev/null || true; fi
    serve_end
    rm -rf "$work"
}
trap cleanup EXIT

if [ ! -f "$image" ]; then
    phase "make a bootable Linux disk from Debian's packages"
    demo/disk.sh "$image"
fi

tests/system-up.sh
if [ -z "${KUBECONFIG:-}" ]; then
    use_local_cluster
fi
class=${HCS_E2E_STORAGE_CLASS:-loopfile}
shell_image=${HCS_E2E_SHELL_IMAGE:-hcs-test/busybox:1}

phase "serve the disk over HTTP"
node_ip=$(kubectl get nodes --output jsonpath='{.items[0].status.addresses[?(@.type=="InternalIP")].address}')
# The address from which this machine speaks to the cluster's first node.
host_ip=$(ip -oneline route get "$node_ip" | sed -n 's/.* src \([^ ]*\).*/\1/p')
serve "$host_ip" "$cache" "$work"
url=http://$host_ip:$serve_port/$(basename "$image")
echo "   $url ($(du -h "$image" | cut -f1) compressed)"

phase "import it: VirtualMachineImage/$name"
kubectl create namespace $namespace --dry-run=client --output yaml | kubectl apply --filename - >/dev/null
kubectl --namespace $namespace delete virtualmachineimage $name --ignore-not-found >/dev/null
kubectl --namespace $namespace apply --filename - <<YAML
apiVersion: hypercloud.tmaxanc.com/v1alpha1
kind: VirtualMachineImage
metadata: {name: $name}
spec:
  storageClassName: $class
  source:
    http: $url
YAML
kubectl --namespace $namespace get virtualmachineimage $name --watch & watch_pid=$!
set +e
kubectl --namespace $namespace wait virtualmachineimage $name \
    --for=jsonpath='{.status.phase}'=Ready --timeout=300s >/dev/null
arrived=$?
set -e
kill $watch_pid 2>/dev/null || true
wait $watch_pid 2>/dev/null || true
watch_pid=
if [ $arrived -ne 0 ]; then
    kubectl --namespace $namespace describe virtualmachineimage $name >&2
    echo "error: the image did not become Ready" >&2
    exit 1
fi
kubectl --namespace $namespace get virtualmachineimage,persistentvolumeclaim
kubectl --namespace $namespace get virtualmachineimage $name --output \
    jsonpath='{"   "}{.status.transfer.bytesReceived}{" bytes received, "}{.status.transfer.bytesWritten}{" written on "}{.status.transfer.nodeName}{"\n"}'

phase "compare the volume with qemu-img's raw disk"
size=$(kubectl --namespace $namespace get virtualmachineimage $name --output jsonpath='{.status.source.virtualSize}')
kubectl --namespace $namespace delete pod compare --ignore-not-found >/dev/null
# No pod but the coordinator's may mount an image's claim.
kubectl --namespace $namespace create --filename - >/dev/null \
    --as system:serviceaccount:hypercloud-storage:coordinator <<YAML
apiVersion: v1
kind: Pod
metadata: {name: compare}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  containers:
  - name: compare
    image: $shell_image
    imagePullPolicy: IfNotPresent
    command: [/bin/sh, -c, "set -o pipefail; head -c $size /dev/volume | sha256sum"]
    volumeDevices: [{name: volume, devicePath: /dev/volume}]
  volumes:
  - name: volume
    persistentVolumeClaim: {claimName: vmim-$name}
YAML
qemu-img convert -O raw "$image" "$work/expected.raw"
expected=$(sha256sum < "$work/expected.raw" | cut -d ' ' -f 1)
kubectl --namespace $namespace wait pod compare --for=jsonpath='{.status.phase}'=Succeeded --timeout=180s >/dev/null
found=$(kubectl --namespace $namespace logs compare | cut -d ' ' -f 1)
kubectl --namespace $namespace delete pod compare >/dev/null
echo "   qemu-img: $expected"
echo "   volume:   $found"
if [ "$expected" != "$found" ]; then
    echo "error: the volume differs from qemu-img's raw disk" >&2
    exit 1
fi
echo "   the same, byte for byte"
phases_end

cat <<NEXT

The image stands in namespace $namespace. To look around:
  export KUBECONFIG=$KUBECONFIG PATH=\$PATH:$(dirname "$(command -v kubectl)")
  kubectl --namespace $namespace describe virtualmachineimage $name
  kubectl --namespace $namespace get events
  kubectl --namespace hypercloud-storage logs daemonset/node-agent
  kubectl --namespace $namespace delete virtualmachineimage $name    # nothing stays
  make cluster-down                                       # nor of the cluster
NEXT
