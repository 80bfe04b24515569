//! No pod starts on a volume while it is put back.

use super::*;
use hypercloud_api::VirtualMachineVolumeRollback;

/// Writes the rollback's status as the coordinator would, and asks whether a
/// pod may start, until the answer is as `wanted` says.
///
/// The coordinator has its own opinion of a rollback without a snapshot and
/// may write it down in between: then it is written again.
async fn answers(
    scope: &Scope,
    status: Value,
    object: Value,
    wanted: impl Fn(Option<&str>) -> bool,
) -> anyhow::Result<()> {
    let rollbacks = scope.api::<VirtualMachineVolumeRollback>();
    let patch = Patch::Merge(json!({"status": status}));
    until("the policy knows the rollback", KNOWN, || async {
        rollbacks
            .patch_status("back", &PatchParams::default(), &patch)
            .await?;
        let admin = &scope.cluster.client;
        let answer = refusal(admin, &scope.namespace, object.clone()).await?;
        Ok(when(wanted(answer.as_deref()), answer))
    })
    .await
}

#[tokio::test]
async fn no_pod_starts_on_a_volume_that_is_being_rolled_back() -> anyhow::Result<()> {
    let scope = Cluster::connect().await?.scope("back").await?;
    let other = scope.cluster.scope("elsewhere").await?;
    let admin = scope.cluster.client.clone();
    let coordinator = system::coordinator(&scope.cluster).await?;
    let rollback: VirtualMachineVolumeRollback = serde_json::from_value(json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "VirtualMachineVolumeRollback",
        "metadata": {"name": "back"},
        "spec": {"pvcName": "root", "volumeSnapshotName": "yesterday"}
    }))?;
    scope
        .api()
        .create(&PostParams::default(), &rollback)
        .await?;
    allowed(&admin, &scope, pod("root")).await?;

    let mut machine = pod("root");
    machine["metadata"]["labels"] = json!({"kubevirt.io": "virt-launcher"});
    let says_so = |answer: Option<&str>| {
        answer.is_some_and(|text| {
            text.contains("the claim root is being rolled back")
                && text.contains("back has Succeeded")
        })
    };
    let passes = |answer: Option<&str>| answer.is_none();
    let writing = json!({"phase": "RollingBack"});
    for object in [pod("root"), machine.clone()] {
        answers(&scope, writing.clone(), object, says_so).await?;
    }
    answers(&scope, writing.clone(), pod("data"), passes).await?;
    // What is made of it is made later.
    answers(&scope, writing.clone(), deployment("root"), passes).await?;
    allowed(&coordinator, &scope, pod("root")).await?;
    allowed(&admin, &other, pod("root")).await?;

    // A deletion in between is no end of it.
    let copy = json!({"jobId": "uid-0", "nodeName": "n1", "bytesDone": 1, "bytesWritten": 1});
    let ending = json!({"phase": "Deleting", "copy": copy});
    answers(&scope, ending, machine.clone(), says_so).await?;
    let ended = json!({"phase": "Deleting", "copy": {"completionTime": "2026-01-01T00:00:00Z"}});
    answers(&scope, ended, machine.clone(), passes).await?;

    answers(&scope, writing, machine.clone(), says_so).await?;
    let succeeded = json!({"phase": "Succeeded"});
    for object in [pod("root"), machine] {
        answers(&scope, succeeded.clone(), object, passes).await?;
    }
    other.close().await?;
    scope.close().await
}
