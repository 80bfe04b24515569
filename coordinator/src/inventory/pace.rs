//! Bursts of changes become one look a second for each node, or fewer where
//! much has to be written. Pure but for the stream at the end: time is an
//! argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt, stream};
use tokio::time::sleep_until;

/// How long after one look at a node the next may come.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// How long at most, on a node with many devices.
pub const LONGEST: Duration = Duration::from_secs(3);
/// Devices that are written every second if need be.
const FEW: usize = 100;

/// How long after a look at a node with so many devices the next may come. The
/// API server's store keeps every version for minutes.
pub fn interval(devices: usize) -> Duration {
    let hundreds = u32::try_from(devices / FEW).unwrap_or(u32::MAX);
    INTERVAL.saturating_mul(hundreds).clamp(INTERVAL, LONGEST)
}

/// When each node may be looked at again, and which have to be.
#[derive(Debug, Default)]
pub struct Pace {
    free: BTreeMap<String, Instant>,
    waiting: BTreeSet<String>,
}

impl Pace {
    /// Something of `node` changed; whether it is looked at now, and then not
    /// for an `interval`, rather than when it is [`due`](Self::due).
    pub fn asks(&mut self, node: &str, interval: Duration, now: Instant) -> bool {
        let early = self.free.get(node).is_some_and(|free| now < *free);
        if early {
            self.waiting.insert(node.to_owned());
        } else {
            self.waiting.remove(node);
            self.free.insert(node.to_owned(), now + interval);
        }
        !early
    }

    /// When a node is due next.
    pub fn next(&self) -> Option<Instant> {
        let free = |node| self.free.get(node).copied();
        self.waiting.iter().filter_map(free).min()
    }

    /// A node that is due at `now`: it asks again.
    pub fn due(&self, now: Instant) -> Option<String> {
        let is_due = |node: &&String| self.free.get(*node).is_none_or(|free| *free <= now);
        self.waiting.iter().find(is_due).cloned()
    }
}

/// The nodes that have to be looked at because of `asking`, each not before its
/// `interval` is over.
pub fn paced(
    asking: impl Stream<Item = String> + Send,
    interval: impl Fn(&str) -> Duration + Send,
) -> impl Stream<Item = String> + Send {
    let begin = (Box::pin(asking), Pace::default(), VecDeque::new(), interval);
    stream::unfold(
        begin,
        |(mut asking, mut pace, mut ready, interval)| async move {
            loop {
                if let Some(node) = ready.pop_front() {
                    return Some((node, (asking, pace, ready, interval)));
                }
                let next = pace.next();
                let due = async {
                    match next {
                        Some(next) => sleep_until(next.into()).await,
                        None => std::future::pending().await,
                    }
                };
                let asked = tokio::select! {
                    node = asking.next() => Some(node?),
                    () = due => pace.due(Instant::now()),
                };
                if let Some(node) = asked
                    && pace.asks(&node, interval(&node), Instant::now())
                {
                    ready.push_back(node);
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_is_looked_at_at_once_and_when_it_is_a_second_old() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        let mut pace = Pace::default();
        assert!(pace.asks("n1", SECOND, at(0)));
        assert_eq!(pace.next(), None);
        for millis in 1..900 {
            assert!(!pace.asks("n1", SECOND, at(millis)));
        }
        assert!(pace.asks("n2", SECOND, at(900)));
        assert_eq!(pace.next(), Some(at(1000)));
        assert_eq!(pace.due(at(999)), None);
        assert_eq!(pace.due(at(1000)).as_deref(), Some("n1"));
        assert!(pace.asks("n1", SECOND, at(1000)));
        assert_eq!(pace.next(), None);
        assert!(!pace.asks("n1", SECOND, at(1001)));
        assert!(pace.asks("n2", SECOND, at(1900)));
        assert_eq!(pace.due(at(2000)).as_deref(), Some("n1"));
    }

    /// Looks in ten seconds with a change in each millisecond.
    fn looks(interval: Duration) -> usize {
        let begun = Instant::now();
        let mut pace = Pace::default();
        let mut looks = 0;
        for millis in 0..10_000 {
            let now = begun + Duration::from_millis(millis);
            looks += usize::from(pace.asks("n1", interval, now));
        }
        // The last change is not forgotten.
        assert!(pace.next().is_some());
        looks
    }

    #[test]
    fn a_thousand_changes_a_second_are_a_look_a_second_or_fewer() {
        assert_eq!(looks(interval(0)), 10);
        assert_eq!(looks(interval(199)), 10);
        assert_eq!(looks(interval(200)), 5);
        assert_eq!(looks(interval(500)), 4);
        assert_eq!(interval(100_000), LONGEST);
    }

    #[tokio::test]
    async fn the_stream_tells_of_each_node_and_ends() {
        let asking = stream::iter(["n1", "n2", "n1"].map(str::to_owned));
        let nodes: Vec<String> = paced(asking, |_| SECOND).collect().await;
        assert_eq!(nodes, ["n1", "n2"]);
    }
}
