//! What a volume holds, as a pod that mounts it sees it. A claim that no pod
//! but the coordinator's may mount is read by a pod that its account makes.

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, LogParams, PostParams};
use serde_json::json;

use crate::cluster::Scope;
use crate::system::shell_image;
use crate::wait::{Seen, until};

/// How long a pod may take to start and to read a small disk.
const LIMIT: Duration = Duration::from_secs(180);

/// SHA-256 of the first `size` bytes of the raw device behind `claim`.
pub async fn block_sha256(scope: &Scope, claim: &str, size: u64) -> anyhow::Result<String> {
    let script = format!("set -o pipefail; head -c {size} /dev/volume | sha256sum");
    first_word(&run(scope, claim, "Block", &script).await?)
}

/// SHA-256 of `disk.img` on the file system behind `claim`, and what `stat`
/// says of it: owner, group, mode, size.
pub async fn file_sha256(scope: &Scope, claim: &str) -> anyhow::Result<(String, String)> {
    let script = "sha256sum < /volume/disk.img; stat -c '%u:%g %a %s' /volume/disk.img; \
                  ls -A /volume | grep -v -e lost+found -e '^disk.img$' || true";
    let output = run(scope, claim, "Filesystem", script).await?;
    let stat = output.lines().skip(1).collect::<Vec<_>>().join("\n");
    Ok((first_word(&output)?, stat))
}

/// Bytes that `disk.img` takes on the file system behind `claim`.
pub async fn file_room(scope: &Scope, claim: &str) -> anyhow::Result<u64> {
    let script = "echo $(( $(stat -c '%b * %B' /volume/disk.img) ))";
    let output = run(scope, claim, "Filesystem", script).await?;
    Ok(first_word(&output)?.parse()?)
}

fn first_word(text: &str) -> anyhow::Result<String> {
    text.split_whitespace()
        .next()
        .map(str::to_owned)
        .context("the pod printed nothing")
}

/// Runs a shell script in a pod that mounts `claim`; what it printed.
pub async fn run(scope: &Scope, claim: &str, mode: &str, script: &str) -> anyhow::Result<String> {
    let block = mode == "Block";
    let key = if block {
        "volumeDevices"
    } else {
        "volumeMounts"
    };
    let place = if block {
        json!([{"name": "volume", "devicePath": "/dev/volume"}])
    } else {
        json!([{"name": "volume", "mountPath": "/volume"}])
    };
    // The owner of a virtual machine's disk, so that what he may read is
    // read as he reads it.
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"generateName": "reader-"},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 107, "runAsGroup": 107, "fsGroup": 107,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"}
            },
            "containers": [{
                "name": "reader",
                "image": shell_image(),
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c", script],
                key: place,
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}
                }
            }],
            "volumes": [{"name": "volume", "persistentVolumeClaim": {"claimName": claim}}]
        }
    }))?;
    let api = scope.api::<Pod>();
    let maker = scope.pods_on(claim).await?;
    let made = maker.create(&PostParams::default(), &pod).await?;
    let name = made.name_any();
    let phase = until("the reader has ended", LIMIT, || async {
        let pod = api.get(&name).await?;
        let status = pod.status.unwrap_or_default();
        Ok(match status.phase.as_deref() {
            Some(phase @ ("Succeeded" | "Failed")) => Seen::Done(phase.to_owned()),
            _ => Seen::NotYet(format!("{:?}", status.conditions)),
        })
    })
    .await?;
    let logs = api.logs(&name, &LogParams::default()).await?;
    api.delete(&name, &DeleteParams::default().grace_period(0))
        .await?;
    until("the reader is gone", LIMIT, || async {
        let found = api.get_opt(&name).await?;
        Ok(crate::wait::when(found.is_none(), "still there"))
    })
    .await?;
    anyhow::ensure!(phase == "Succeeded", "the reader failed: {logs}");
    Ok(logs)
}
