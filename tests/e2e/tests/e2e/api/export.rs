//! The rules of a `VirtualMachineVolumeExport`.

use super::*;
use hypercloud_api::VirtualMachineVolumeExport;

/// A specification with these fields beside what it needs.
fn with(more: Value) -> Value {
    let mut spec = json!({
        "pvcName": "mydisk",
        "objectStore": {"bucketName": "vm-image", "objectName": "mydisk"}
    });
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    spec
}

#[tokio::test]
async fn an_export_says_what_goes_where() -> anyhow::Result<()> {
    let scope = scope("export").await?;
    let store = |store: Value| with(json!({"objectStore": store}));
    for (spec, said) in [
        (with(json!({})), None),
        (json!({"pvcName": "mydisk"}), Some("objectStore: Required")),
        (with(json!({"pvcName": ""})), Some("spec.pvcName")),
        (
            store(json!({"objectName": "mydisk"})),
            Some("bucketName must be set"),
        ),
        (
            store(json!({"objectName": "mydisk", "objectBucketClaim": {"name": "disks"}})),
            None,
        ),
        (
            store(json!({"bucketName": "vm-image", "objectName": "a", "endpoint": "ftp://s"})),
            Some("endpoint must be an absolute http"),
        ),
        (with(json!({"format": "vmdk"})), Some("spec.format")),
        (
            with(json!({"compression": "lzma"})),
            Some("spec.compression"),
        ),
        (with(json!({"format": "raw", "compression": "none"})), None),
        (
            with(json!({"format": "raw", "compression": "zlib"})),
            Some("a raw object is not compressed"),
        ),
        (with(json!({"digest": "md5"})), Some("spec.digest")),
        (
            with(json!({"downloadUrl": {"expiresAfterSeconds": 604_801}})),
            Some("expiresAfterSeconds"),
        ),
        (
            with(json!({"caConfigMap": {"name": "a"}, "certConfigMap": "a"})),
            Some("name the same thing"),
        ),
    ] {
        judged::<VirtualMachineVolumeExport>(&scope, spec, said).await?;
    }
    let export: VirtualMachineVolumeExport = serde_json::from_value(json!({
        "apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
        "kind": "VirtualMachineVolumeExport",
        "metadata": {"name": "once"},
        "spec": with(json!({"pvcName": "nothing"}))
    }))?;
    scope.api().create(&PostParams::default(), &export).await?;
    for change in [json!({"pvcName": "data"}), json!({"overwrite": true})] {
        let change = json!({"spec": change});
        let said = "a VirtualMachineVolumeExport is immutable: create another one";
        unchanged::<VirtualMachineVolumeExport>(&scope, "once", change, said).await?;
    }
    scope.close().await
}
