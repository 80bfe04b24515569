//! Rook, Ceph and the drivers fail and come back at random, and the status is
//! compared with what is true.

use std::time::{Duration, Instant};

use e2e::storage::ground::Ground;
use e2e::storage::{self, LIMIT, orders};
use hypercloud_api::StorageState;
use rand::Rng;
use rand::seq::IndexedRandom;

/// How long OK may be said while something is not well.
const WRONG: Duration = Duration::from_secs(30);

/// What can go wrong, and is wrong from the moment it is ordered.
const FAILURES: &[Order] = &[
    ("health", "HEALTH_WARN"),
    ("health", "HEALTH_ERR"),
    ("ceph", "silent"),
    ("reconcile", "fail"),
    ("pool", "Failure"),
    ("object-store", "Failure"),
    ("user", "Failure"),
    ("bucket", "Failed"),
    ("down", "rook-ceph-osd-0"),
    ("down", "rook-ceph-osd-1"),
    ("down", "rook-ceph.rbd.csi.ceph.com-ctrlplugin"),
    ("down", "rook-ceph.rbd.csi.ceph.com-nodeplugin"),
    ("down", "rook-ceph-operator"),
    // Rook goes on calling the store Ready.
    ("down", "rook-ceph-rgw-hypercloud-objects-a"),
];

type Order = (&'static str, &'static str);

/// How long the run is: `HCS_CHAOS_SECONDS`, or a minute.
pub fn duration() -> Duration {
    let text = std::env::var("HCS_CHAOS_SECONDS").ok();
    let seconds = text.and_then(|text| text.parse().ok()).unwrap_or(60);
    Duration::from_secs(seconds)
}

pub async fn it_is_never_ok_for_long_while_something_is_not(ground: &Ground) -> anyhow::Result<()> {
    let cluster = &ground.cluster;
    ground.installed().await?;
    let end = Instant::now() + duration();
    // Since when each of what is ordered is so.
    let mut broken: Vec<(Order, Instant)> = Vec::new();
    let mut next = Instant::now();
    let (mut flips, mut fine, mut failing) = (0_u32, 0_u32, 0_u32);
    let mut worst = (Duration::ZERO, String::new());
    let mut pace = tokio::time::interval(Duration::from_millis(250));
    while Instant::now() < end {
        pace.tick().await;
        if Instant::now() >= next {
            // The first is certain, so that there is something to be seen.
            let (orders, stays) = match flips {
                0 => (vec![FAILURES[1]], Duration::from_secs(15)),
                _ => dice(),
            };
            orders::give(cluster, &orders).await?;
            broken.retain(|(order, _)| orders.contains(order));
            for order in orders {
                if broken.iter().all(|(known, _)| *known != order) {
                    broken.push((order, Instant::now()));
                }
            }
            next = Instant::now() + stays;
            flips += 1;
        }
        let oldest = broken.iter().map(|(order, since)| (since.elapsed(), order));
        let oldest = oldest.max_by_key(|(long, _)| *long);
        let status = storage::status(cluster).await?;
        match status.state {
            Some(StorageState::Ok | StorageState::Warning) => fine += 1,
            _ => {
                failing += 1;
                continue;
            }
        }
        if let Some((long, order)) = oldest {
            anyhow::ensure!(
                long <= WRONG,
                "{:?} after {long:?} of {order:?}",
                status.state
            );
            if long > worst.0 {
                worst = (long, format!("{order:?}"));
            }
        }
    }
    orders::clear(cluster).await?;
    let begun = Instant::now();
    storage::is_ok(cluster, LIMIT).await?;
    println!(
        "{flips} flips; OK was said {fine} times and not {failing} times, wrongly for {:.1} s at most ({}), and rightly {:.1} s after the end",
        worst.0.as_secs_f64(),
        worst.1,
        begun.elapsed().as_secs_f64()
    );
    anyhow::ensure!(
        failing > 0 && (flips < 6 || fine > 0),
        "nothing was compared"
    );
    Ok(())
}

/// What is ordered next, and for how long: mostly for moments, and now and
/// then for so long that it has to be seen.
fn dice() -> (Vec<Order>, Duration) {
    let mut rng = rand::rng();
    let mut orders: Vec<Order> = Vec::new();
    let count = *[0, 0, 1, 1, 1, 2].choose(&mut rng).unwrap_or(&1);
    for _ in 0..count {
        if let Some(order) = FAILURES.choose(&mut rng)
            && orders.iter().all(|(key, _)| key != &order.0)
        {
            orders.push(*order);
        }
    }
    let millis = match rng.random_range(0..3) {
        0 => rng.random_range(100..2_000),
        1 => rng.random_range(2_000..12_000),
        _ => rng.random_range(12_000..40_000),
    };
    (orders, Duration::from_millis(millis))
}
