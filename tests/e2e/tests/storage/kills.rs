//! A coordinator that is killed at any instant, and started again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use e2e::storage::coordinator::Coordinator;
use e2e::storage::ground::{FORMER, Ground, NEWEST, NEWEST_CEPH};
use e2e::storage::objects::all;
use e2e::storage::{self, LIMIT, orders};
use e2e::wait::{until, when};
use hypercloud_api::StorageState;
use hypercloud_storage::object::LABEL_STAGE;
use rand::Rng;
use serde_json::json;

use crate::deletion::left;

/// How often it is killed while there is something to do.
const KILLS: usize = 50;

pub async fn a_coordinator_killed_at_fifty_points_converges(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    ground.none().await?;
    let mut own = Coordinator::take_over(cluster).await?;
    let lived = lives(ground, &mut own).await;
    if lived.is_err() {
        let log = std::fs::read_to_string(own.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(60)..].join("\n");
        println!("--- the tests' coordinator\n{last}");
    }
    own.hand_back(cluster).await?;
    lived
}

/// Installations, upgrades and deletions, one after another, until it was
/// killed often enough.
async fn lives(ground: &Ground, own: &mut Coordinator) -> anyhow::Result<()> {
    let mut points = Vec::new();
    while points.len() < KILLS {
        life(ground, own, &mut points).await?;
    }
    // Kills that all meet the same prove nothing.
    let distinct: BTreeSet<&String> = points.iter().collect();
    anyhow::ensure!(distinct.len() >= 10, "killed at {distinct:?} only");
    Ok(())
}

async fn life(
    ground: &Ground,
    own: &mut Coordinator,
    points: &mut Vec<String>,
) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    orders::give(cluster, &[("pace", "300")]).await?;
    let mut spec = ground.spec();
    spec["versions"] = json!({"rook": FORMER});
    storage::set(cluster, &spec).await?;
    killed(ground, own, points, Some(FORMER)).await?;

    // One daemon after another, slowly: there is something to meet.
    orders::give(cluster, &[("pace", "2000")]).await?;
    spec["versions"] = json!({"rook": NEWEST, "ceph": NEWEST_CEPH});
    storage::set(cluster, &spec).await?;
    killed(ground, own, points, Some(NEWEST)).await?;

    orders::give(cluster, &[("pace", "300")]).await?;
    spec["cleanup"] = json!({
        "confirmation": "yes-really-destroy-data",
        "definitions": "Remove",
    });
    storage::set(cluster, &spec).await?;
    storage::delete(cluster).await?;
    killed(ground, own, points, None).await?;
    let left = left(ground).await?;
    anyhow::ensure!(left.is_empty(), "left: {left:?}");
    ground.restore().await
}

/// Whether this Rook runs and all is well, or, without one, nothing is there.
async fn is_done(ground: &Ground, rook: Option<&str>) -> anyhow::Result<bool> {
    let found = storage::look(&ground.cluster).await?;
    let Some(rook) = rook else {
        return Ok(found.is_none());
    };
    let status = found.and_then(|found| found.status).unwrap_or_default();
    let running = status.versions.unwrap_or_default();
    Ok(status.state == Some(StorageState::Ok) && running.rook.as_deref() == Some(rook))
}

/// Kills the coordinator again and again until all is done, each time a moment
/// after it was started. A moment is as long as a look, or as an effect, or as
/// several stages.
async fn killed(
    ground: &Ground,
    own: &mut Coordinator,
    points: &mut Vec<String>,
    rook: Option<&str>,
) -> anyhow::Result<()> {
    let first = points.len();
    while points.len() < KILLS {
        let millis = {
            let mut rng = rand::rng();
            match rng.random_range(0..3) {
                0 => rng.random_range(300..1_500),
                1 => rng.random_range(1_500..3_500),
                _ => rng.random_range(3_500..7_000),
            }
        };
        tokio::time::sleep(Duration::from_millis(millis)).await;
        anyhow::ensure!(!own.has_ended()?, "it ended by itself");
        if is_done(ground, rook).await? {
            break;
        }
        own.kill()?;
        let status = storage::status(&ground.cluster).await?;
        let ready = status.ready.unwrap_or_else(|| "-".to_owned());
        let objects = all(&ground.cluster, Some(LABEL_STAGE), None).await?;
        points.push(format!("{ready} of {}", objects.len()));
        own.start()?;
    }
    let what = rook.unwrap_or("no Rook");
    let begun = Instant::now();
    until("converges", LIMIT, || async {
        Ok(when(is_done(ground, rook).await?, rook))
    })
    .await?;
    println!(
        "{what} {:.1} s after the last of {} kills, at {}",
        begun.elapsed().as_secs_f64(),
        points.len() - first,
        points[first..].join(", ")
    );
    Ok(())
}
