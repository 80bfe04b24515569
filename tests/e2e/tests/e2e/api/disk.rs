//! The rules of a `VirtualMachinePvc`.

use super::*;
use hypercloud_api::VirtualMachinePvc;

/// The mission's example, to the letter.
const EXAMPLE: &str = "
apiVersion: hypercloud.tmaxanc.com/v1alpha1
kind: VirtualMachinePvc
metadata: {name: vm-root-disk}
spec:
  virtualMachineImageName: ubuntu18.04
  pvc:
    accessModes: [ReadWriteOnce]
    resources: {requests: {storage: 10Gi}}
";

/// A specification that names an image, with this claim.
fn with_claim(claim: Value) -> Value {
    json!({"virtualMachineImageName": "ubuntu18.04", "pvc": claim})
}

#[tokio::test]
async fn a_disk_has_exactly_one_source() -> anyhow::Result<()> {
    let scope = scope("disk-source").await?;
    let one = Some("exactly one of virtualMachineImageName, pvcName and volumeSnapshotName");
    for (spec, said) in [
        (json!({"virtualMachineImageName": "ubuntu18.04"}), None),
        (json!({"pvcName": "root"}), None),
        (json!({"volumeSnapshotName": "yesterday"}), None),
        (json!({}), one),
        (json!({"virtualMachineImageName": "a", "pvcName": "b"}), one),
        (json!({"pvcName": "a", "volumeSnapshotName": "b"}), one),
        (
            json!({"virtualMachineImageName": "a", "pvcName": "b", "volumeSnapshotName": "c"}),
            one,
        ),
        (
            json!({"virtualMachineImageName": "a", "virtualMachineImageNamespace": "images"}),
            None,
        ),
        (
            json!({"pvcName": "a", "virtualMachineImageNamespace": "images"}),
            Some("goes with virtualMachineImageName"),
        ),
        (json!({"pvcName": ""}), Some("spec.pvcName")),
    ] {
        judged::<VirtualMachinePvc>(&scope, spec, said).await?;
    }
    scope.close().await
}

#[tokio::test]
async fn a_disks_claim_makes_sense_or_is_refused() -> anyhow::Result<()> {
    let scope = scope("disk-claim").await?;
    let many: serde_json::Map<_, _> = (0..64).map(|i| (format!("k{i}"), json!("v"))).collect();
    let mut too_many = many.clone();
    too_many.insert("one-more".into(), json!("v"));
    let labels = Some("are the system's own");
    for (spec, said) in [
        (
            json!({"accessModes": ["ReadWriteMany", "ReadOnlyMany"], "volumeMode": "Filesystem",
                "storageClassName": "cephfs", "resources": {"requests": {"storage": "10Gi"}},
                "labels": {"app": "vm"}, "annotations": {"example.org/note": "text"}}),
            None,
        ),
        (json!({"resources": {}}), None),
        (json!({"labels": many, "annotations": many}), None),
        (json!({"labels": too_many}), Some("spec.pvc.labels")),
        (json!({"accessModes": ["Some"]}), Some("accessModes")),
        (
            json!({"accessModes": ["ReadWriteOnce", "ReadWriteOnce"]}),
            Some("Duplicate value"),
        ),
        (json!({"volumeMode": "Tape"}), Some("volumeMode")),
        (json!({"storageClassName": ""}), Some("storageClassName")),
        (
            json!({"labels": {"hypercloud.tmaxanc.com/role": "image"}}),
            labels,
        ),
        (
            json!({"labels": {"app.kubernetes.io/managed-by": "me"}}),
            labels,
        ),
        (
            json!({"annotations": {"hypercloud.tmaxanc.com/handed-over": "uid"}}),
            labels,
        ),
        (
            json!({"annotations": {"volume.kubernetes.io/selected-node": "n1"}}),
            labels,
        ),
        (
            json!({"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}),
            labels,
        ),
    ] {
        judged::<VirtualMachinePvc>(&scope, with_claim(spec), said).await?;
    }
    scope.close().await
}

#[tokio::test]
async fn a_disk_cannot_be_changed() -> anyhow::Result<()> {
    let scope = scope("disk-immutable").await?;
    let api = scope.api::<VirtualMachinePvc>();
    let disk: VirtualMachinePvc = serde_yaml::from_str(EXAMPLE)?;
    api.create(&PostParams::default(), &disk).await?;
    for change in [
        json!({"virtualMachineImageName": "other"}),
        json!({"virtualMachineImageName": null, "pvcName": "root"}),
        json!({"pvc": {"resources": {"requests": {"storage": "20Gi"}}}}),
        json!({"pvc": {"labels": {"app": "vm"}}}),
        json!({"pvc": null}),
    ] {
        let said = "a VirtualMachinePvc is immutable: create another one";
        unchanged::<VirtualMachinePvc>(&scope, "vm-root-disk", json!({"spec": change}), said)
            .await?;
    }
    // What is no part of it can.
    let labels = json!({"metadata": {"labels": {"app": "vm"}}});
    api.patch(
        "vm-root-disk",
        &PatchParams::default(),
        &Patch::Merge(&labels),
    )
    .await?;
    scope.close().await
}
