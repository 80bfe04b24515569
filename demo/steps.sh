# Sourced: the steps of the demonstration. The caller sets namespace and disk,
# and ends the process watch_pid when it ends itself.

watch_pid=

# demo ARGUMENT...: kubectl in the demonstration's namespace.
demo() { kubectl --namespace "$namespace" "$@"; }

# reach KIND NAME PHASE: waits for the phase, and shows what is seen meanwhile.
reach() {
    # Not by `demo`: the process is to be kubectl itself.
    kubectl --namespace "$namespace" get "$1" "$2" --watch & watch_pid=$!
    local arrived=0
    demo wait "$1" "$2" --for=jsonpath='{.status.phase}'="$3" --timeout=300s >/dev/null || arrived=$?
    kill $watch_pid 2>/dev/null || true
    wait $watch_pid 2>/dev/null || true
    watch_pid=
    if [ $arrived -ne 0 ]; then
        demo describe "$1" "$2" >&2
        echo "error: $1 $2 did not become $3" >&2
        return 1
    fi
}

# run_pod NAME IMAGE COMMAND...: runs a pod to its end, made as KubeVirt would: on
# the claim of $disk, as user 107, without rights. Prints what it said.
run_pod() {
    local pod=$1 image=$2 words
    shift 2
    words=$(printf '%s\n' "$@" | sed 's/["\\]/\\&/g; s/.*/"&"/' | paste --serial --delimiters=,)
    demo apply --filename - >/dev/null <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $pod}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 107, runAsGroup: 107, fsGroup: 107}
  containers:
  - name: $pod
    image: $image
    imagePullPolicy: IfNotPresent
    command: [$words]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeDevices: [{name: disk, devicePath: /dev/disk}]
  volumes:
  - name: disk
    persistentVolumeClaim: {claimName: $disk}
YAML
    local end log ended='{.status.containerStatuses[0].state.terminated.exitCode}'
    if ! end=$(demo wait pod "$pod" --for=jsonpath="$ended" --timeout=600s --output jsonpath="$ended"); then
        demo describe pod "$pod" >&2
        echo "error: the pod $pod did not end" >&2
        return 1
    fi
    log=$(demo logs "$pod")
    if [ "$end" != 0 ]; then
        printf '%s\n' "$log" >&2
        echo "error: the pod $pod ended with status $end" >&2
        return 1
    fi
    demo delete pod "$pod" >/dev/null
    printf '%s\n' "$log"
}
