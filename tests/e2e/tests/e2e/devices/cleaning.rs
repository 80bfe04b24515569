//! A device is cleaned when that is meant, and only then, and only by whom it
//! may be.

use std::time::Duration;

use e2e::cluster::{Cluster, SYSTEM_NAMESPACE};
use e2e::devices::{self, Loop, nodes_here};
use e2e::system;
use e2e::wait::{Seen, until, when};
use hypercloud_api::{CleanupPhase, NodeDeviceCleanup, NodeDeviceCleanupSpec, NodeDeviceInventory};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use super::{NEXT_LOOK, cluster, has, told};

#[tokio::test]
async fn a_device_is_cleaned_when_that_is_meant() -> anyhow::Result<()> {
    // An order by a name that does not last is good for a minute.
    let _undisturbed = system::disturb().await;
    let (cluster, _alone) = cluster().await?;
    let here = nodes_here(&cluster).await?;
    let Some(node) = here.first() else {
        return Ok(());
    };
    let device = Loop::attach(96)?;
    devices::forget(&cluster, &device.path).await?;
    device.format().await?;
    told(&cluster, &here, &device.name(), NEXT_LOOK, |found| {
        has(found, "FileSystem")
    })
    .await?;

    // Not in so many words: nothing is done, and it says what would be.
    let words = ["clean", node, &device.path];
    let (code, out, said) = devices::ended(&devices::plugin(&words)?);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{said}");
    assert!(
        said.contains("FileSystem") && said.contains("96Mi"),
        "{said}"
    );
    assert!(device.signatures()?.contains("ext4"));

    let words = [&words[..], &["--yes-really-destroy-data"]].concat();
    let (code, out, said) = devices::ended(&devices::plugin(&words)?);
    assert_eq!(code, Some(0), "{out}{said}");
    println!("{out}");
    assert!(out.contains("ext4"), "{out}");
    assert_eq!(device.signatures()?.trim(), "");
    let clean = |found: Option<&[String]>| found.is_some() && !has(found, "FileSystem");
    told(&cluster, &here, &device.name(), NEXT_LOOK, clean).await?;
    // It can be asked for again; then nothing is found. The other node's agent
    // looks at the same device, which it has alone for a moment.
    until("it is cleaned again", devices::CLEANING, || async {
        let (code, out, said) = devices::ended(&devices::plugin(&words)?);
        anyhow::ensure!(code == Some(0) || said.contains("(InUse)"), "{out}{said}");
        Ok(when(out.contains("nothing was on it"), out + &said))
    })
    .await?;

    let cleanups = devices::cleanups(&cluster)
        .list(&Default::default())
        .await?;
    let mut of_it = cleanups.iter().filter(|c| c.spec.device == device.path);
    let cleanup = of_it.next().map(|cleanup| cleanup.name_any());
    let name = cleanup.unwrap_or_default();
    for reason in ["Cleaning", "Cleaned"] {
        devices::event(&cluster, "NodeDeviceCleanup", &name, reason, &device.path).await?;
    }
    let told = devices::event(&cluster, "Node", node, "Cleaned", &name).await?;
    println!("the node's Event: {told}");
    devices::forget(&cluster, &device.path).await
}

#[tokio::test]
async fn a_device_in_use_is_not_cleaned() -> anyhow::Result<()> {
    let _undisturbed = system::disturb().await;
    let (cluster, _alone) = cluster().await?;
    let here = nodes_here(&cluster).await?;
    let Some(node) = here.first() else {
        return Ok(());
    };
    let device = Loop::attach(80)?;
    device.format().await?;
    let mounted = device.mount().await?;
    std::fs::write(mounted.path().join("kept"), "somebody's own")?;
    told(&cluster, &here[..1], &device.name(), NEXT_LOOK, |found| {
        has(found, "FileSystem")
    })
    .await?;
    let cleanup = NodeDeviceCleanup::new(
        &format!("e2e-in-use-{}", device.name().kernel),
        NodeDeviceCleanupSpec {
            node_name: node.clone(),
            device: device.path.clone(),
            confirmation: hypercloud_api::CLEANUP_CONFIRMATION.to_owned(),
        },
    );
    let api = devices::cleanups(&cluster);
    let name = cleanup.name_any();
    let _ = api.delete(&name, &DeleteParams::default()).await;
    api.create(&PostParams::default(), &cleanup).await?;
    let (phase, reason, message) = devices::over(&cluster, &name).await?;
    println!("{reason}: {message}");
    assert_eq!(phase, CleanupPhase::Failed, "{reason}: {message}");
    assert!(["Mounted", "InUse"].contains(&reason.as_str()), "{reason}");
    let path = &device.path;
    devices::event(
        &cluster,
        "NodeDeviceCleanup",
        &name,
        "CleaningRefused",
        path,
    )
    .await?;
    devices::event(&cluster, "Node", node, "CleaningRefused", &name).await?;
    let words = ["clean", node, &device.path, "--yes-really-destroy-data"];
    let (code, out, said) = devices::ended(&devices::plugin(&words)?);
    assert_eq!(code, Some(3), "{out}{said}");
    assert!(said.contains(&reason), "{said}");

    let path = mounted.path().join("kept");
    assert_eq!(std::fs::read_to_string(path)?, "somebody's own");
    drop(mounted);
    assert!(device.signatures()?.contains("ext4"));
    devices::tool("fsck.ext4", &["-n", "-f", &device.path])?;
    devices::forget(&cluster, &device.path).await
}

#[tokio::test]
async fn one_that_is_not_there_is_told_of() -> anyhow::Result<()> {
    let (cluster, _alone) = cluster().await?;
    let all = devices::all_current(&cluster).await?;
    let node = all[0].name_any();
    let device = "/dev/disk/by-id/no-such-device";
    let words = ["clean", &node, device, "--yes-really-destroy-data"];
    let (code, out, said) = devices::ended(&devices::plugin(&words)?);
    assert_eq!(code, Some(3), "{out}{said}");
    devices::forget(&cluster, device).await
}

/// What an account of the namespace is told that asks for a cleaning: nothing
/// where it may, else the server's code.
async fn asked(client: kube::Client) -> anyhow::Result<Option<u16>> {
    let api: Api<NodeDeviceCleanup> = Api::all(client);
    let spec = NodeDeviceCleanupSpec {
        node_name: "n".to_owned(),
        device: "/dev/sdz".to_owned(),
        confirmation: hypercloud_api::CLEANUP_CONFIRMATION.to_owned(),
    };
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match api
        .create(&dry, &NodeDeviceCleanup::new("e2e-who", spec))
        .await
    {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.code)),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test]
async fn who_may_not_clean_cannot() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    let agent = cluster.account(SYSTEM_NAMESPACE, "node-agent").await?;
    assert_eq!(asked(agent).await?, Some(403));
    let scope = cluster.scope("devices-roles").await?;
    let accounts = scope.api::<ServiceAccount>();
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client.clone());
    for (role, may_clean) in [
        ("hypercloud-storage-devices-view", false),
        ("admin", false),
        ("hypercloud-storage-devices-clean", true),
    ] {
        let account = serde_json::from_value(json!({"metadata": {"name": role}}))?;
        accounts.create(&PostParams::default(), &account).await?;
        let name = format!("{}-{role}", scope.namespace);
        let binding = serde_json::from_value(json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": role,
                "namespace": scope.namespace}]
        }))?;
        bindings.create(&PostParams::default(), &binding).await?;
        let client = cluster.account(&scope.namespace, role).await?;
        let inventories: Api<NodeDeviceInventory> = Api::all(client.clone());
        let seen = until("the role is in force", Duration::from_secs(30), || async {
            inventories.list(&Default::default()).await?;
            Ok(Seen::Done(()))
        })
        .await;
        let answer = asked(client).await;
        bindings.delete(&name, &DeleteParams::default()).await?;
        seen?;
        let expected = if may_clean { None } else { Some(403) };
        assert_eq!(answer?, expected, "{role}");
    }
    scope.close().await
}
