//! A coordinator that is killed at any instant, and started again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use e2e::storage::coordinator::Coordinator;
use e2e::storage::ground::{FORMER, Ground, NEWEST};
use e2e::storage::objects::all;
use e2e::storage::{self, LIMIT, orders};
use hypercloud_api::{HyperCloudStorageStatus, StorageState};
use hypercloud_storage::object::LABEL_STAGE;
use rand::Rng;
use serde_json::json;

use crate::deletion::left;

/// How often it is killed in each part of a storage's life, and how many
/// milliseconds it is left at most: what is made takes longer than what goes.
const KILLS: [(&str, u32, u64); 3] = [
    ("installation", 24, 8_000),
    ("upgrade", 14, 5_000),
    ("deletion", 12, 5_000),
];

pub async fn a_coordinator_killed_at_fifty_points_converges(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    ground.none().await?;
    let mut own = Coordinator::take_over(cluster).await?;
    let lived = life(ground, &mut own).await;
    if lived.is_err() {
        let log = std::fs::read_to_string(own.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(60)..].join("\n");
        println!("--- the tests' coordinator\n{last}");
    }
    own.hand_back(cluster).await?;
    lived
}

async fn life(ground: &Ground, own: &mut Coordinator) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    orders::give(cluster, &[("pace", "300")]).await?;
    let mut spec = ground.spec();
    spec["versions"] = json!({"rook": FORMER});
    storage::set(cluster, &spec).await?;
    killed(ground, own, KILLS[0]).await?;
    runs(ground, FORMER).await?;

    // One daemon after another, slowly: there is something to meet.
    orders::give(cluster, &[("pace", "2000")]).await?;
    spec["versions"] = json!({"rook": NEWEST});
    storage::set(cluster, &spec).await?;
    killed(ground, own, KILLS[1]).await?;
    runs(ground, NEWEST).await?;

    orders::give(cluster, &[("pace", "300")]).await?;
    spec["cleanup"] = json!({
        "confirmation": "yes-really-destroy-data",
        "definitions": "Remove",
    });
    storage::set(cluster, &spec).await?;
    storage::delete(cluster).await?;
    killed(ground, own, KILLS[2]).await?;
    storage::gone(cluster, LIMIT).await?;
    let left = left(ground).await?;
    anyhow::ensure!(left.is_empty(), "left: {left:?}");
    ground.restore().await
}

async fn runs(ground: &Ground, rook: &str) -> anyhow::Result<()> {
    let of = |status: &HyperCloudStorageStatus| {
        let running = status.versions.clone().unwrap_or_default();
        status.state == Some(StorageState::Ok) && running.rook.as_deref() == Some(rook)
    };
    let begun = Instant::now();
    storage::becomes(&ground.cluster, "converges", LIMIT, of).await?;
    println!(
        "Rook {rook}: OK {:.1} s after the last kill",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Kills the coordinator so often, each time a moment after it was started.
/// A moment is as long as a look, or as an effect, or as several stages.
async fn killed(
    ground: &Ground,
    own: &mut Coordinator,
    (what, kills, longest): (&str, u32, u64),
) -> anyhow::Result<()> {
    let mut points = Vec::new();
    for _ in 0..kills {
        let millis = {
            let mut rng = rand::rng();
            match rng.random_range(0..3) {
                0 => rng.random_range(300..1_000),
                1 => rng.random_range(1_000..longest / 2),
                _ => rng.random_range(longest / 2..longest),
            }
        };
        tokio::time::sleep(Duration::from_millis(millis)).await;
        anyhow::ensure!(!own.has_ended()?, "it ended by itself");
        own.kill()?;
        let status = storage::status(&ground.cluster).await?;
        let ready = status.ready.unwrap_or_else(|| "-".to_owned());
        let objects = all(&ground.cluster, Some(LABEL_STAGE), None).await?;
        points.push(format!("{ready} of {}", objects.len()));
        own.start()?;
    }
    println!(
        "killed {kills} times during the {what}, at {}",
        points.join(", ")
    );
    // Kills that all meet the same prove nothing.
    let distinct: BTreeSet<&String> = points.iter().collect();
    anyhow::ensure!(distinct.len() >= 3, "killed at {distinct:?} only");
    Ok(())
}
