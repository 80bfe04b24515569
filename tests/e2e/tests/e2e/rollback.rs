//! A volume is put back to a snapshot in place: only what differs is written,
//! nobody uses it meanwhile, and whoever is killed, it ends right.

use std::time::Duration;

use e2e::cluster::{Cluster, Scope};
use e2e::volume::{BLOCK, FILESYSTEM};
use e2e::wait::{until, when};
use e2e::{rollback, system};
use hypercloud_api::{RollbackPhase, VirtualMachineVolumeRollback};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

const MIB: i64 = 1 << 20;
/// A volume that takes some seconds to put back, and what of it differs, in
/// MiB.
const SIZE: u64 = 1536;
const DATA: u64 = 1280;

async fn scope(name: &str) -> anyhow::Result<Scope> {
    let cluster = Cluster::connect().await?;
    system::all_ready(&cluster, "node-agent").await?;
    system::all_ready(&cluster, "coordinator").await?;
    cluster.scope(name).await
}

async fn uid(scope: &Scope, claim: &str) -> anyhow::Result<Option<String>> {
    let claim = scope.api::<PersistentVolumeClaim>().get(claim).await?;
    Ok(claim.uid())
}

fn written(rollback: &VirtualMachineVolumeRollback) -> i64 {
    let status = rollback.status.as_ref();
    let copy = status.and_then(|status| status.copy.as_ref());
    copy.map_or(-1, |copy| copy.bytes_written)
}

/// A pod that writes to the volume and goes on.
fn machine() -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "machine"},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 107, "runAsGroup": 107,
                "seccompProfile": {"type": "RuntimeDefault"}
            },
            "containers": [{
                "name": "machine",
                "image": system::shell_image(),
                "imagePullPolicy": "IfNotPresent",
                "command": ["/bin/sh", "-c",
                    "dd if=/dev/urandom of=/dev/volume bs=1M count=2; sync; sleep 3600"],
                "volumeDevices": [{"name": "volume", "devicePath": "/dev/volume"}],
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}
                }
            }],
            "volumes": [{"name": "volume", "persistentVolumeClaim": {"claimName": "disk"}}]
        }
    }))?)
}

#[tokio::test]
async fn only_what_differs_is_written_and_the_claim_stays_the_same() -> anyhow::Result<()> {
    for mode in [BLOCK, FILESYSTEM] {
        let scope = scope("rollback").await?;
        mode.fill(&scope, "disk", 256, 64).await?;
        let before = mode.sha256(&scope, "disk", 256).await?;
        let claim = uid(&scope, "disk").await?;
        rollback::snapshot(&scope, "before", "disk").await?;
        // Other data, zeros where data was, and data where zeros were.
        let change = "dd if=/dev/urandom of=$DISK bs=1M count=4 seek=10 conv=notrunc; \
                      dd if=/dev/zero of=$DISK bs=1M count=2 seek=40 conv=notrunc; \
                      dd if=/dev/urandom of=$DISK bs=1M count=3 seek=150 conv=notrunc; sync";
        mode.run(&scope, "disk", change).await?;
        assert_ne!(mode.sha256(&scope, "disk", 256).await?, before);

        rollback::start(&scope, "back", "disk", "before").await?;
        let done = rollback::succeeded(&scope, "back", rollback::ROLLBACK).await?;
        let (_, reason, message) = rollback::look(&scope, "back").await?;
        println!("{}: {reason}: {message}", mode.name);
        let written = written(&done);
        assert!(
            (6 * MIB..=7 * MIB).contains(&written),
            "{written} bytes written for 6 MiB that differ and are no zeros"
        );
        assert_eq!(mode.sha256(&scope, "disk", 256).await?, before);
        assert_eq!(uid(&scope, "disk").await?, claim);
        rollback::tidy(&scope, &done.uid().unwrap_or_default()).await?;
        rollback::delete(&scope, "back", Duration::from_secs(30)).await?;
        scope.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_pod_that_uses_the_volume_is_named_and_waited_for() -> anyhow::Result<()> {
    let scope = scope("rollback-used").await?;
    BLOCK.fill(&scope, "disk", 64, 8).await?;
    let before = BLOCK.sha256(&scope, "disk", 64).await?;
    rollback::snapshot(&scope, "before", "disk").await?;
    let pods = scope.api::<Pod>();
    let pod = machine()?;
    pods.create(&PostParams::default(), &pod).await?;
    until("the machine runs", Duration::from_secs(120), || async {
        let pod = pods.get("machine").await?;
        let phase = pod.status.and_then(|status| status.phase);
        Ok(when(phase.as_deref() == Some("Running"), phase))
    })
    .await?;
    rollback::start(&scope, "back", "disk", "before").await?;
    let message = rollback::waiting(&scope, "back", "VolumeInUse").await?;
    assert!(message.contains("the pod machine"), "{message}");
    // Nothing was made for it yet.
    let claims = scope.api::<PersistentVolumeClaim>();
    assert_eq!(claims.list(&Default::default()).await?.items.len(), 1);
    pods.delete("machine", &DeleteParams::default()).await?;
    rollback::succeeded(&scope, "back", rollback::ROLLBACK).await?;
    assert_eq!(BLOCK.sha256(&scope, "disk", 64).await?, before);

    // A snapshot of another claim is refused, and nothing is written.
    BLOCK.fill(&scope, "other", 64, 8).await?;
    rollback::start(&scope, "wrong", "other", "before").await?;
    let (reason, message) = rollback::failed(&scope, "wrong").await?;
    assert_eq!(reason, "SnapshotOfOtherVolume");
    assert!(
        message.contains("of the claim disk, not of other"),
        "{message}"
    );
    scope.close().await
}

#[tokio::test]
async fn a_second_rollback_waits_for_the_first() -> anyhow::Result<()> {
    let scope = scope("rollback-twice").await?;
    BLOCK.fill(&scope, "disk", SIZE, DATA).await?;
    rollback::snapshot(&scope, "one", "disk").await?;
    let change = format!("dd if=/dev/urandom of=$DISK bs=1M count={DATA} conv=notrunc; sync");
    BLOCK.run(&scope, "disk", &change).await?;
    let two = BLOCK.sha256(&scope, "disk", SIZE).await?;
    rollback::snapshot(&scope, "two", "disk").await?;
    rollback::start(&scope, "first", "disk", "one").await?;
    until("the first has the claim", rollback::ROLLBACK, || async {
        let (first, ..) = rollback::look(&scope, "first").await?;
        let status = first.status.unwrap_or_default();
        let waits = matches!(
            status.phase,
            None | Some(RollbackPhase::Pending | RollbackPhase::Preparing)
        );
        Ok(when(!waits || status.copy.is_some(), status.phase))
    })
    .await?;
    rollback::start(&scope, "second", "disk", "two").await?;
    match rollback::waiting(&scope, "second", "RollbackUnderWay").await {
        Ok(message) => assert!(message.contains("the rollback first"), "{message}"),
        // It did not wait long enough to be seen.
        Err(error) if error.to_string().contains("is over") => println!("{error:#}"),
        Err(error) => return Err(error),
    }
    let copy = |rollback: VirtualMachineVolumeRollback| {
        let status = rollback.status.unwrap_or_default();
        status.copy.unwrap_or_default()
    };
    let limit = Duration::from_secs(400);
    let first = copy(rollback::succeeded(&scope, "first", limit).await?);
    let second = copy(rollback::succeeded(&scope, "second", limit).await?);
    assert!(
        first.completion_time <= second.start_time,
        "{first:?} {second:?}"
    );
    assert_eq!(BLOCK.sha256(&scope, "disk", SIZE).await?, two);
    scope.close().await
}

/// A rollback that has begun and has a while to go.
async fn midway(name: &str) -> anyhow::Result<(Scope, String, String)> {
    let scope = scope(name).await?;
    BLOCK.fill(&scope, "disk", SIZE, DATA).await?;
    let before = BLOCK.sha256(&scope, "disk", SIZE).await?;
    rollback::snapshot(&scope, "before", "disk").await?;
    let change = format!("dd if=/dev/urandom of=$DISK bs=1M count={DATA} conv=notrunc; sync");
    BLOCK.run(&scope, "disk", &change).await?;
    rollback::start(&scope, "back", "disk", "before").await?;
    let node = rollback::midway(&scope, "back").await?;
    // Meanwhile nobody is let in.
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let refused = scope.api::<Pod>().create(&dry, &machine()?).await;
    let Err(error) = refused else {
        anyhow::bail!("a pod is let in on half a volume");
    };
    assert!(error.to_string().contains("rolled back"), "{error}");
    Ok((scope, before, node))
}

/// The rollback goes on and ends right.
async fn ends_right(scope: Scope, before: &str) -> anyhow::Result<()> {
    let done = rollback::succeeded(&scope, "back", Duration::from_secs(400)).await?;
    assert_eq!(BLOCK.sha256(&scope, "disk", SIZE).await?, before);
    println!("{} MiB written", written(&done) / MIB);
    rollback::tidy(&scope, &done.uid().unwrap_or_default()).await?;
    scope.close().await
}

/// One after the other: each takes away what the others stand on.
#[tokio::test]
async fn whoever_is_killed_the_rollback_ends_right() -> anyhow::Result<()> {
    let _alone = system::disturb().await;
    let (scope, before, node) = midway("rollback-agent").await?;
    let agent = system::agent_on(&scope.cluster, &node).await?;
    system::kill(&scope.cluster, &agent.name_any()).await?;
    system::all_ready(&scope.cluster, "node-agent").await?;
    ends_right(scope, &before).await?;

    let (scope, before, _) = midway("rollback-coordinator").await?;
    let cluster = scope.cluster.clone();
    let leader = system::leader(&cluster).await?;
    let pods = system::pods(&cluster, "coordinator").await?;
    let pod = pods.iter().find(|pod| leader.contains(&pod.name_any()));
    let pod = pod.map(|pod| pod.name_any()).unwrap_or_default();
    system::kill(&cluster, &pod).await?;
    system::new_leader(&cluster, &leader).await?;
    ends_right(scope, &before).await?;

    // Deleted in its middle, it is finished first.
    let (scope, before, _) = midway("rollback-deleted").await?;
    rollback::delete(&scope, "back", Duration::from_secs(400)).await?;
    assert_eq!(BLOCK.sha256(&scope, "disk", SIZE).await?, before);
    scope.close().await
}
