//! The rules of a `VirtualMachineVolumeRollback`.

use super::*;
use hypercloud_api::VirtualMachineVolumeRollback;

#[tokio::test]
async fn a_rollback_names_a_claim_and_a_snapshot_for_good() -> anyhow::Result<()> {
    let scope = scope("rollback").await?;
    for (spec, said) in [
        (json!({"pvcName": "root", "volumeSnapshotName": "a"}), None),
        (
            json!({"pvcName": "root"}),
            Some("volumeSnapshotName: Required"),
        ),
        (
            json!({"volumeSnapshotName": "a"}),
            Some("pvcName: Required"),
        ),
        (
            json!({"pvcName": "", "volumeSnapshotName": "a"}),
            Some("spec.pvcName"),
        ),
        (
            json!({"pvcName": "root", "volumeSnapshotName": "a".repeat(254)}),
            Some("spec.volumeSnapshotName"),
        ),
    ] {
        judged::<VirtualMachineVolumeRollback>(&scope, spec, said).await?;
    }
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
    for change in [
        json!({"pvcName": "data"}),
        json!({"volumeSnapshotName": "today"}),
    ] {
        let change = json!({"spec": change});
        let said = "a VirtualMachineVolumeRollback is immutable: create another one";
        unchanged::<VirtualMachineVolumeRollback>(&scope, "back", change, said).await?;
    }
    scope.close().await
}
