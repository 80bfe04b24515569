//! Bursts of changes become one look a second for each node. Pure but for
//! the stream at the end: time is an argument.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt, stream};
use tokio::time::sleep_until;

/// How long after one look at a node's devices the next may come.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Which nodes were looked at lately, and which have to be again.
#[derive(Debug, Default)]
pub struct Pace {
    lately: BTreeMap<String, Instant>,
    waiting: BTreeSet<String>,
}

impl Pace {
    /// Something of `node` changed; whether it is looked at now, rather than
    /// with those that are [`due`](Self::due) later.
    pub fn asks(&mut self, node: &str, now: Instant) -> bool {
        let early = self
            .lately
            .get(node)
            .is_some_and(|last| now.duration_since(*last) < INTERVAL);
        if early {
            self.waiting.insert(node.to_owned());
        } else {
            self.waiting.remove(node);
            self.lately.insert(node.to_owned(), now);
        }
        !early
    }

    /// When a node is due next.
    pub fn next(&self) -> Option<Instant> {
        let due = |node| self.lately.get(node).map(|last| *last + INTERVAL);
        self.waiting.iter().filter_map(due).min()
    }

    /// The nodes that are due at `now`.
    pub fn due(&mut self, now: Instant) -> Vec<String> {
        let (due, waiting): (BTreeSet<String>, _) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|node| {
                self.lately
                    .get(node)
                    .is_none_or(|last| now.duration_since(*last) >= INTERVAL)
            });
        self.waiting = waiting;
        for node in &due {
            self.lately.insert(node.clone(), now);
        }
        due.into_iter().collect()
    }
}

/// The nodes that have to be looked at because of `asking`.
pub fn paced(asking: impl Stream<Item = String> + Send) -> impl Stream<Item = String> + Send {
    let begin = (Box::pin(asking), Pace::default(), VecDeque::new());
    stream::unfold(begin, |(mut asking, mut pace, mut ready)| async move {
        loop {
            if let Some(node) = ready.pop_front() {
                return Some((node, (asking, pace, ready)));
            }
            let next = pace.next();
            let due = async {
                match next {
                    Some(next) => sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                node = asking.next() => {
                    let node = node?;
                    if pace.asks(&node, Instant::now()) {
                        ready.push_back(node);
                    }
                }
                () = due => ready.extend(pace.due(Instant::now())),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_looked_at_at_once_and_when_it_is_a_second_old() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        let mut pace = Pace::default();
        assert!(pace.asks("n1", at(0)));
        assert_eq!(pace.next(), None);
        for millis in 1..900 {
            assert!(!pace.asks("n1", at(millis)));
        }
        assert!(pace.asks("n2", at(900)));
        assert_eq!(pace.next(), Some(at(1000)));
        assert_eq!(pace.due(at(999)), Vec::<String>::new());
        assert_eq!(pace.due(at(1000)), ["n1"]);
        assert_eq!(pace.next(), None);
        assert!(!pace.asks("n1", at(1001)));
        assert!(pace.asks("n2", at(1900)));
        assert_eq!(pace.due(at(2000)), ["n1"]);
    }

    #[test]
    fn a_thousand_changes_a_second_are_a_look_a_second() {
        let begun = Instant::now();
        let mut pace = Pace::default();
        let mut looks = 0;
        for millis in 0..10_000 {
            let now = begun + Duration::from_millis(millis);
            looks += pace.due(now).len() + usize::from(pace.asks("n1", now));
        }
        assert_eq!(looks, 10);
        // The last change is not forgotten.
        assert_eq!(pace.due(begun + Duration::from_secs(10)), ["n1"]);
    }

    #[tokio::test]
    async fn the_stream_tells_of_each_node_and_ends() {
        let asking = stream::iter(["n1", "n2", "n1"].map(str::to_owned));
        let nodes: Vec<String> = paced(asking).collect().await;
        assert_eq!(nodes, ["n1", "n2"]);
    }
}
