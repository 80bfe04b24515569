//! What the API server takes as a `NodeDeviceInventory`.

use super::*;
use hypercloud_api::{NodeDeviceInventory, names};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};

/// Bytes of devices that an inventory has at most.
const MOST: usize = 1 << 20;

/// Devices of a large node: as many as an inventory has room for.
fn devices() -> Vec<Value> {
    let device = |n: usize| {
        let links = (0..10).map(|k| format!("/dev/disk/by-path/pci-0000:3b:00.{k}-sas-{n:08x}"));
        json!({
            "name": format!("sd{n}"), "path": format!("/dev/sd{n}"), "kind": "disk",
            "available": false, "size": 18_000_207_937_536_u64,
            "reasons": [{"reason": "FileSystem", "message": "a file system (ext4)"}],
            "identity": {"links": links.collect::<Vec<_>>(), "serial": format!("S{n:019}")},
            "mounts": [format!("/data/{n}")], "model": "A DISK OF SOME MODEL",
        })
    };
    let mut devices = Vec::new();
    let mut size = 2;
    for n in 0.. {
        let device = device(n);
        size += device.to_string().len() + 1;
        if size > MOST {
            break;
        }
        devices.push(device);
    }
    devices
}

/// The name is of no node, so the coordinator takes the inventory away within
/// a minute; until then it is the API server's alone.
#[tokio::test]
async fn as_many_devices_as_an_inventory_shows_fit() -> anyhow::Result<()> {
    let _alone = e2e::devices::alone().await;
    let cluster = Cluster::connect().await?;
    let inventories: Api<NodeDeviceInventory> = Api::all(cluster.client.clone());
    let devices = devices();
    assert!(devices.len() > 500, "{}", devices.len());
    let mut tries = 3;
    let written = loop {
        let made: NodeDeviceInventory = serde_json::from_value(json!({
            "apiVersion": "hypercloud.tmaxanc.com/v1alpha1",
            "kind": "NodeDeviceInventory",
            "metadata": {"generateName": "no-node-"},
            "spec": {}
        }))?;
        let mut made = inventories.create(&PostParams::default(), &made).await?;
        let name = made.name_any();
        let status = json!({"state": "Current", "deviceCount": devices.len(), "devices": devices});
        made.status = Some(serde_json::from_value(status)?);
        // As the coordinator writes it.
        made.metadata.managed_fields = None;
        let parameters = PostParams {
            field_manager: Some(names::FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        match inventories.replace_status(&name, &parameters, &made).await {
            Ok(written) => {
                let _ = inventories.delete(&name, &DeleteParams::default()).await;
                break written;
            }
            // The coordinator was quicker.
            Err(kube::Error::Api(status)) if status.is_not_found() && tries > 0 => tries -= 1,
            Err(error) => return Err(error.into()),
        }
    };
    let status = written.status.as_ref().map(|status| status.devices.len());
    assert_eq!(status, Some(devices.len()));
    // Who owns which of the fields takes no room to speak of.
    let fields = serde_json::to_string(&written.metadata.managed_fields)?;
    assert!(fields.len() < 4096, "{} bytes", fields.len());
    Ok(())
}
