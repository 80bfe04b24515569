//! Whoever is killed in the middle of an upload, the object is right; and an
//! upload that is not wanted any more leaves nothing.

use e2e::cluster::Cluster;
use e2e::volume::BLOCK;
use e2e::wait::{until, when};
use e2e::{disk, download, export, system};
use k8s_openapi::jiff::SignedDuration;
use kube::ResourceExt;
use serde_json::json;
use test_store::Store;

/// Mebibytes of the disk, and how many of them are noise.
const SIZE: u64 = 256;
const DATA: u64 = 200;
/// So many parts are let in before somebody is killed.
const FIRST: u64 = 8;
/// For so long nobody may lead until a volume that is read itself is read
/// anew, as nobody looked whether something writes to it.
const UNWATCHED: SignedDuration = SignedDuration::from_secs(15);
/// Before the Lease was written for the last time, and after it was taken, it
/// may be some seconds until a volume is looked at.
const SLACK: SignedDuration = SignedDuration::from_secs(5);

/// How often an upload of `key` was begun.
fn begun(store: &Store, key: &str) -> usize {
    let requests = store.requests();
    let begins = |request: &&String| request.starts_with("POST ") && request.ends_with("?uploads");
    let of_key = |request: &&String| request.contains(&format!("/{key}?"));
    requests.iter().filter(begins).filter(of_key).count()
}

/// How often parts of `key` were sent.
fn parts(store: &Store, key: &str) -> usize {
    let requests = store.requests();
    let sent = |request: &&String| request.starts_with("PUT ") && request.contains("partNumber=");
    let of_key = |request: &&String| request.contains(&format!("/{key}?"));
    requests.iter().filter(sent).filter(of_key).count()
}

/// Waits until all parts that are let in are stored.
async fn stopped(store: &Store, before: u64) -> anyhow::Result<()> {
    until("the gate is shut", e2e::task::LIMIT, || async {
        let stored = store.stored_parts();
        Ok(when(stored == before + FIRST, stored))
    })
    .await
}

/// One after the other: each takes away what the others stand on.
#[tokio::test]
async fn whoever_is_killed_the_object_is_right_or_not_there() -> anyhow::Result<()> {
    let _alone = system::disturb().await;
    let cluster = Cluster::connect().await?;
    system::all_ready(&cluster, "node-agent").await?;
    system::all_ready(&cluster, "coordinator").await?;
    let scope = cluster.scope("export-killed").await?;
    let store = export::store(&cluster).await?;
    export::keys(&scope).await?;
    BLOCK.fill(&scope, "disk", SIZE, DATA).await?;
    let sha256 = BLOCK.sha256(&scope, "disk", SIZE).await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("object");
    for victim in ["agent", "coordinator", "resource"] {
        let before = store.stored_parts();
        store.allow(FIRST);
        let spec = export::spec(&store, "disk", victim, json!({}));
        let uid = export::start(&scope, victim, spec)
            .await?
            .uid()
            .unwrap_or_default();
        let node = export::midway(&scope, victim, &store).await?;
        stopped(&store, before).await?;
        assert!(store.object(victim).is_none());
        let mut unled = SignedDuration::ZERO;
        match victim {
            "agent" => {
                let agent = system::agent_on(&cluster, &node).await?;
                system::kill(&cluster, &agent.name_any()).await?;
                system::all_ready(&cluster, "node-agent").await?;
            }
            "coordinator" => {
                let leader = system::leader(&cluster).await?;
                let pod = system::living_leader(&cluster).await?;
                let last = system::last_led(&cluster).await?;
                system::kill(&cluster, &pod).await?;
                system::new_leader(&cluster, &leader).await?;
                let since = system::leads_since(&cluster).await?;
                unled = since.duration_since(last);
            }
            _ => {
                export::delete(&scope, victim).await?;
                assert!(store.object(victim).is_none());
                assert!(store.uploads().is_empty(), "{:?}", store.uploads());
                export::tidy(&scope, &uid).await?;
                continue;
            }
        }
        store.allow(u64::MAX);
        let status = export::succeeded(&scope, victim).await?;
        export::save(&store, victim, &path)?;
        disk::qemu_img(&["check", "-q"], &[&path])?;
        assert_eq!(download::content(&path, "qcow2")?, sha256, "{victim}");
        let digest = status.disk.and_then(|disk| disk.digest);
        assert_eq!(digest, Some(format!("sha256:{sha256}")));
        assert!(store.uploads().is_empty(), "{:?}", store.uploads());
        // It is one upload that goes on; only a volume that nobody looked at
        // for long, as no coordinator led, is read anew, and people are told.
        let begun = begun(&store, victim);
        let events = export::events(&scope, victim).await?;
        let told = events.iter().any(|reason| reason == "VolumeUnwatched");
        println!(
            "{victim} killed: nobody led for {unled:#}, {begun} uploads, {} parts sent",
            parts(&store, victim)
        );
        assert_eq!(begun, if told { 2 } else { 1 }, "{:?}", store.requests());
        assert!(
            !told || unled > UNWATCHED - SLACK,
            "{victim}: {unled:#}, {events:?}"
        );
        export::tidy(&scope, &uid).await?;
    }
    // What was let in is there, and nothing else.
    let objects = store.objects();
    let keys: Vec<_> = objects.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["agent", "coordinator"]);
    scope.close().await
}
