//! What is in the nodes: inventories follow the devices, people and Rook are
//! told of them, and a device is cleaned when that is meant, and only then.
//!
//! The nodes of the local cluster are this machine: both have its devices, and
//! one that a test makes shows on both. Elsewhere what needs one is skipped.

mod cleaning;

use std::time::{Duration, Instant};

use e2e::cluster::Cluster;
use e2e::devices::{self, Loop, LoopName, nodes_here, reasons, status};
use e2e::wait::{until, when};
use e2e::{agents, download, system};
use hypercloud_api::InventoryState;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::sync::MutexGuard;

/// How soon a hot-plug has to show on a busy machine.
const SOON: Duration = Duration::from_secs(30);
/// Where no udevd says that somebody wrote to a device, it shows with the next
/// look that an agent makes by itself.
const NEXT_LOOK: Duration = Duration::from_secs(90);

/// The cluster, with nobody else who changes devices.
async fn cluster() -> anyhow::Result<(Cluster, MutexGuard<'static, ()>)> {
    let alone = devices::alone().await;
    let cluster = Cluster::connect().await?;
    system::all_ready(&cluster, "node-agent").await?;
    system::all_ready(&cluster, "coordinator").await?;
    Ok((cluster, alone))
}

/// Waits until the reasons of a device on each of these nodes are as wanted.
async fn told(
    cluster: &Cluster,
    nodes: &[String],
    name: &LoopName,
    limit: Duration,
    wanted: impl Fn(Option<&[String]>) -> bool,
) -> anyhow::Result<()> {
    for node in nodes {
        let what = format!("the inventory of {node} is right about {}", name.kernel);
        until(&what, limit, || async {
            let status = status(cluster, node).await?;
            let found = reasons(&status, name);
            Ok(when(wanted(found.as_deref()), found))
        })
        .await?;
    }
    Ok(())
}

fn has(reasons: Option<&[String]>, reason: &str) -> bool {
    reasons.is_some_and(|reasons| reasons.iter().any(|found| found == reason))
}

/// Alone: it is timed, and takes an agent away.
#[tokio::test]
async fn inventories_follow_the_devices_of_their_nodes() -> anyhow::Result<()> {
    let _undisturbed = system::disturb().await;
    let (cluster, _alone) = cluster().await?;
    let here = nodes_here(&cluster).await?;
    let Some(node) = here.first() else {
        return Ok(());
    };

    let begun = Instant::now();
    let device = Loop::attach(64)?;
    let name = device.name();
    told(&cluster, &here, &name, NEXT_LOOK, |found| {
        has(found, "LoopDevice")
    })
    .await?;
    println!("a hot-plug shows after {} ms", begun.elapsed().as_millis());
    anyhow::ensure!(begun.elapsed() < SOON, "too late: {:?}", begun.elapsed());
    let seen = status(&cluster, node).await?;
    let seen = seen
        .devices
        .iter()
        .find(|device| device.name == name.kernel);
    let size = seen.map(|device| device.size);
    assert_eq!(size, Some(64 << 20), "{seen:?}");

    // As a person sees it.
    let table = devices::tool("kubectl", &["get", "ndi", node])?;
    let head: Vec<_> = table
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let columns = [
        "NAME",
        "STATE",
        "DEVICES",
        "AVAILABLE",
        "CAPACITY",
        "HEARTBEAT",
        "AGE",
    ];
    assert_eq!(head, columns, "{table}");
    assert!(table.contains("Current"), "{table}");
    let described = devices::tool("kubectl", &["describe", "ndi", node])?;
    assert!(described.contains(&device.path), "{described}");
    assert!(described.contains("a loop device"), "{described}");

    device.format().await?;
    let formatted = Instant::now();
    told(&cluster, &here, &name, NEXT_LOOK, |found| {
        has(found, "FileSystem")
    })
    .await?;
    println!(
        "a file system shows after {} ms",
        formatted.elapsed().as_millis()
    );
    let mounted = device.mount().await?;
    let used = |found: Option<&[String]>| has(found, "Mounted") || has(found, "InUse");
    told(&cluster, &here, &name, NEXT_LOOK, used).await?;
    drop(mounted);
    told(&cluster, &here, &name, NEXT_LOOK, |found| {
        found.is_some() && !used(found)
    })
    .await?;

    let detached = Instant::now();
    drop(device);
    told(&cluster, &here, &name, NEXT_LOOK, |found| found.is_none()).await?;
    println!(
        "one that is gone is gone after {} ms",
        detached.elapsed().as_millis()
    );
    let took = detached.elapsed();
    anyhow::ensure!(took < SOON, "too late: {took:?}");

    goes_stale_and_comes_back(&cluster, node).await
}

/// An agent that stops dead is noticed, and so is its successor.
async fn goes_stale_and_comes_back(cluster: &Cluster, node: &str) -> anyhow::Result<()> {
    anyhow::ensure!(system::freeze_agent(node)?, "no agent of {node} runs here");
    let state = |wanted: InventoryState| {
        let cluster = cluster.clone();
        let node = node.to_owned();
        async move {
            let what = format!("the inventory of {node} is {}", wanted.as_str());
            until(&what, Duration::from_secs(150), || async {
                let status = status(&cluster, &node).await?;
                let found = (status.state, &status.conditions);
                Ok(when(status.state == Some(wanted), found))
            })
            .await
        }
    };
    let frozen = Instant::now();
    state(InventoryState::Stale).await?;
    println!("stale after {} s", frozen.elapsed().as_secs());
    let output = devices::plugin(&[node, "-o", "rook"])?;
    let (code, _, said) = devices::ended(&output);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("left out: node {node}")), "{said}");
    let (_, table, _) = devices::ended(&devices::plugin(&[node])?);
    assert!(table.contains("Stale("), "{table}");
    state(InventoryState::Current).await?;
    println!("current again after {} s", frozen.elapsed().as_secs());
    system::all_ready(cluster, "node-agent").await
}

#[tokio::test]
async fn an_inventory_that_somebody_deletes_comes_back() -> anyhow::Result<()> {
    let (cluster, _alone) = cluster().await?;
    let all = devices::all_current(&cluster).await?;
    let inventory = &all[0];
    let api = devices::inventories(&cluster);
    api.delete(&inventory.name_any(), &DeleteParams::default())
        .await?;
    until("it is there again", Duration::from_secs(30), || async {
        let found = api.get(&inventory.name_any()).await?;
        let status = found.status.clone().unwrap_or_default();
        let is_new = found.uid() != inventory.uid();
        let is_whole = status.state == Some(InventoryState::Current) && !status.devices.is_empty();
        let owner = found
            .owner_references()
            .first()
            .map(|owner| owner.kind.clone());
        Ok(when(
            is_new && is_whole && owner.as_deref() == Some("Node"),
            (is_new, status.state, owner),
        ))
    })
    .await
}

#[tokio::test]
async fn people_programs_and_rook_are_told_of_the_devices() -> anyhow::Result<()> {
    let (cluster, _alone) = cluster().await?;
    let all = devices::all_current(&cluster).await?;
    let node = all[0].name_any();
    let run = |words: &[&str]| -> anyhow::Result<String> {
        let (code, out, said) = devices::ended(&devices::plugin(words)?);
        anyhow::ensure!(code == Some(0), "{words:?}: {code:?}: {said}");
        Ok(out)
    };
    let table = run(&[])?;
    assert!(table.starts_with("NODE"), "{table}");
    for inventory in &all {
        assert!(table.contains(&inventory.name_any()), "{table}");
    }
    assert!(run(&["-o", "wide"])?.contains("BY-ID"));
    let told: Value = serde_json::from_str(&run(&[&node, "-o", "json"])?)?;
    assert_eq!(told[0]["node"], json!(node));
    assert_eq!(told.as_array().map(Vec::len), Some(1));
    let same: Value = serde_yaml::from_str(&run(&["-o", "yaml"])?)?;
    assert_eq!(same.as_array().map(Vec::len), Some(all.len()));
    let spec: Value = serde_yaml::from_str(&run(&["-o", "rook", "--min-size", "100Ti"])?)?;
    assert_eq!(spec["storage"]["nodes"], json!([]));
    assert_eq!(spec["storage"]["useAllDevices"], json!(false));
    let (code, _, said) = devices::ended(&devices::plugin(&["no-such-node"])?);
    assert_eq!(code, Some(4), "{said}");
    Ok(())
}

#[tokio::test]
async fn what_an_agent_says_agrees_with_the_resource() -> anyhow::Result<()> {
    let _undisturbed = system::disturb().await;
    let (cluster, _alone) = cluster().await?;
    devices::all_current(&cluster).await?;
    let folder = tempfile::tempdir()?;
    agents::certificates(&cluster, folder.path()).await?;
    for pod in system::pods(&cluster, "node-agent").await? {
        let spec = pod.spec.clone().unwrap_or_default();
        let node = spec.node_name.unwrap_or_default();
        // Other tests make devices meanwhile.
        let what = format!("agent and resource of {node} say the same");
        until(&what, Duration::from_secs(60), || async {
            let (look, told) = agents::devices(&cluster, &pod).await?;
            let status = status(&cluster, &node).await?;
            let facts = |name: &str, size: u64, available: bool, mut codes: Vec<String>| {
                codes.sort();
                (name.to_owned(), size, available, codes)
            };
            let mut asked: Vec<_> = told
                .iter()
                .map(|device| {
                    let codes = device.reasons.iter().map(|reason| reason.reason.clone());
                    facts(&device.name, device.size, device.available, codes.collect())
                })
                .collect();
            let mut shown: Vec<_> = status
                .devices
                .iter()
                .map(|device| {
                    let codes = device.reasons.iter().map(|reason| reason.code().to_owned());
                    facts(&device.name, device.size, device.available, codes.collect())
                })
                .collect();
            asked.sort();
            shown.sort();
            let revision = status
                .revision
                .and_then(|number| u64::try_from(number).ok());
            let agree = asked == shown
                && revision == Some(look.revision)
                && look.devices == told.len() as u64
                && look.boot_id == status.boot_id;
            Ok(when(agree, (revision, look, asked.len(), shown.len())))
        })
        .await?;

        // And so does the program that stands alone.
        let hcs = download::program("hcs")?;
        let output = std::process::Command::new(hcs)
            .args(["devices", "-o", "json", "--agent", &agents::address(&pod)?])
            .arg("--tls")
            .arg(folder.path())
            .output()?;
        let (code, out, said) = devices::ended(&output);
        assert_eq!(code, Some(0), "{said}");
        let told: Value = serde_json::from_str(&out)?;
        assert_eq!(
            told["bootId"],
            json!(status(&cluster, &node).await?.boot_id)
        );
        assert!(
            !told["devices"].as_array().is_none_or(Vec::is_empty),
            "{told}"
        );
    }
    // Somebody else's certificate does not let in.
    let pods = system::pods(&cluster, "node-agent").await?;
    let wrong = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args([
            "-nodes",
            "-subj",
            "/CN=coordinator.hypercloud-storage",
            "-days",
            "1",
        ])
        .arg("-keyout")
        .arg(folder.path().join("tls.key"))
        .arg("-out")
        .arg(folder.path().join("tls.crt"))
        .output()?;
    anyhow::ensure!(wrong.status.success(), "openssl: {wrong:?}");
    let output = std::process::Command::new(download::program("hcs")?)
        .args(["devices", "--agent", &agents::address(&pods[0])?, "--tls"])
        .arg(folder.path())
        .output()?;
    let (code, _, said) = devices::ended(&output);
    assert_eq!(code, Some(4), "{said}");
    Ok(())
}
