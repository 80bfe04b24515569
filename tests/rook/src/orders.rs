//! What the program can be told, as the texts of a ConfigMap.
//!
//! A key that is absent means that all is well. A key or a word that is not
//! known is an error, so that a test which has a typing mistake fails and does
//! not pass.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How the Rook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orders {
    /// `health`: what Ceph says of itself.
    pub health: String,
    /// `checks`: the names of its checks; none: those that fit the health.
    pub checks: Option<Vec<String>>,
    /// `ceph`: `answers` or `silent`.
    pub answers: bool,
    /// `last-checked`: `moving` or `frozen`.
    pub looks: bool,
    /// `generation`: `observed` or `frozen`.
    pub observes: bool,
    /// `status`: `written` or `empty`.
    pub writes: bool,
    /// `reconcile`: `ok`, `fail` or `stuck`.
    pub reconcile: Outcome,
    /// `operator`: `runs` or `hangs`.
    pub runs: bool,
    /// `pace`: milliseconds between two steps.
    pub pace: Duration,
    /// `down`: workloads whose pods are not ready.
    pub down: BTreeSet<String>,
    /// `osds-missing`: OSDs that are not made.
    pub missing: Missing,
    /// `drivers`: `made` or `absent`.
    pub drivers: bool,
    /// `pool`: the phase of block pools.
    pub pool: String,
    /// `object-store`: the phase of object stores.
    pub object_store: String,
    /// `user`: the phase of object stores' users.
    pub user: String,
    /// `bucket`: the phase of buckets' claims.
    pub bucket: String,
    /// `bucket-host`, `bucket-port`, `bucket-name`, `bucket-key`,
    /// `bucket-secret`: where a bucket is said to be.
    pub store: Store,
    /// `upgrade`: `goes`, or `stops-after-N` daemons.
    pub upgrades: Option<usize>,
    /// `deletion`: `goes` or `stuck`.
    pub deletes: bool,
    /// `cleanup`: `ok`, `fails`, `hangs` or `fails:HOSTNAME`.
    pub cleanup: Cleanup,
    /// `drain`: seconds from `osd out` until an OSD is needed no more, or
    /// `never`.
    pub drain: Option<Duration>,
    /// `purge`: `ok` or `fails`.
    pub purges: bool,
    /// `ceph-commands`: `ok` or `fail`.
    pub commands: bool,
    /// `cdi`: `Deployed`, `Deploying`, `Error`, `degraded` or `unavailable`.
    pub cdi: String,
}

/// What comes of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say what they are.
pub enum Outcome {
    Ok,
    Fail,
    Stuck,
}

/// OSDs that are not made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say what they are.
pub enum Missing {
    All,
    These(BTreeSet<u32>),
}

/// What comes of the jobs that clean nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say what they are.
pub enum Cleanup {
    Ok,
    Fails,
    Hangs,
    FailsOn(String),
}

/// Where a bucket is said to be, if not at the simulated store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // Their names say what they are.
pub struct Store {
    pub host: Option<String>,
    pub port: Option<String>,
    pub name: Option<String>,
    pub key: Option<String>,
    pub secret: Option<String>,
}

impl Default for Orders {
    fn default() -> Self {
        let ready = || "Ready".to_owned();
        Self {
            health: "HEALTH_OK".to_owned(),
            checks: None,
            answers: true,
            looks: true,
            observes: true,
            writes: true,
            reconcile: Outcome::Ok,
            runs: true,
            pace: Duration::ZERO,
            down: BTreeSet::new(),
            missing: Missing::These(BTreeSet::new()),
            drivers: true,
            pool: ready(),
            object_store: ready(),
            user: ready(),
            bucket: "Bound".to_owned(),
            store: Store::default(),
            upgrades: None,
            deletes: true,
            cleanup: Cleanup::Ok,
            drain: Some(Duration::ZERO),
            purges: true,
            commands: true,
            cdi: "Deployed".to_owned(),
        }
    }
}

impl Orders {
    /// The orders of a ConfigMap's data.
    ///
    /// # Errors
    /// The key that is not known, or whose word is not.
    pub fn read(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut orders = Self::default();
        for (key, word) in data {
            orders
                .take(key, word.trim())
                .ok_or_else(|| format!("{key}: {word:?} is no order"))?;
        }
        Ok(orders)
    }

    /// Takes one order; none if it is not known.
    fn take(&mut self, key: &str, word: &str) -> Option<()> {
        let phase = || one_of(word, &["Ready", "Progressing", "Failure", "empty"]);
        match key {
            "health" => self.health = word.to_owned(),
            "checks" => self.checks = Some(list(word)),
            "ceph" => self.answers = either(word, "answers", "silent")?,
            "last-checked" => self.looks = either(word, "moving", "frozen")?,
            "generation" => self.observes = either(word, "observed", "frozen")?,
            "status" => self.writes = either(word, "written", "empty")?,
            "reconcile" => {
                self.reconcile = match word {
                    "ok" => Outcome::Ok,
                    "fail" => Outcome::Fail,
                    "stuck" => Outcome::Stuck,
                    _ => return None,
                }
            }
            "operator" => self.runs = either(word, "runs", "hangs")?,
            "pace" => self.pace = Duration::from_millis(word.parse().ok()?),
            "down" => self.down = list(word).into_iter().collect(),
            "osds-missing" => self.missing = missing(word)?,
            "drivers" => self.drivers = either(word, "made", "absent")?,
            "pool" => self.pool = phase()?,
            "object-store" => self.object_store = phase()?,
            "user" => self.user = phase()?,
            "bucket" => self.bucket = one_of(word, &["Bound", "Pending", "Failed"])?,
            "bucket-host" => self.store.host = Some(word.to_owned()),
            "bucket-port" => self.store.port = Some(word.to_owned()),
            "bucket-name" => self.store.name = Some(word.to_owned()),
            "bucket-key" => self.store.key = Some(word.to_owned()),
            "bucket-secret" => self.store.secret = Some(word.to_owned()),
            "upgrade" => {
                self.upgrades = match word {
                    "goes" => None,
                    _ => Some(word.strip_prefix("stops-after-")?.parse().ok()?),
                }
            }
            "deletion" => self.deletes = either(word, "goes", "stuck")?,
            "cleanup" => {
                self.cleanup = match word {
                    "ok" => Cleanup::Ok,
                    "fails" => Cleanup::Fails,
                    "hangs" => Cleanup::Hangs,
                    _ => Cleanup::FailsOn(word.strip_prefix("fails:")?.to_owned()),
                }
            }
            "drain" => {
                self.drain = match word {
                    "never" => None,
                    _ => Some(Duration::from_secs(word.parse().ok()?)),
                }
            }
            "purge" => self.purges = either(word, "ok", "fails")?,
            "ceph-commands" => self.commands = either(word, "ok", "fail")?,
            "cdi" => {
                let words = ["Deployed", "Deploying", "Error", "degraded", "unavailable"];
                self.cdi = one_of(word, &words)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Whether an OSD of this number is made.
    #[must_use]
    pub fn makes_osd(&self, id: u32) -> bool {
        match &self.missing {
            Missing::All => false,
            Missing::These(ids) => !ids.contains(&id),
        }
    }

    /// What comes of the cleaning of a node.
    #[must_use]
    pub fn cleanup_of(&self, hostname: &str) -> Outcome {
        match &self.cleanup {
            Cleanup::Ok => Outcome::Ok,
            Cleanup::Fails => Outcome::Fail,
            Cleanup::Hangs => Outcome::Stuck,
            Cleanup::FailsOn(other) if other == hostname => Outcome::Fail,
            Cleanup::FailsOn(_) => Outcome::Ok,
        }
    }
}

fn either(word: &str, yes: &str, no: &str) -> Option<bool> {
    if word == yes {
        Some(true)
    } else if word == no {
        Some(false)
    } else {
        None
    }
}

fn one_of(word: &str, words: &[&str]) -> Option<String> {
    words.contains(&word).then(|| word.to_owned())
}

/// The words between commas; `none` is none.
fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty() && *word != "none")
        .map(str::to_owned)
        .collect()
}

fn missing(word: &str) -> Option<Missing> {
    if word == "all" {
        return Some(Missing::All);
    }
    let ids: Option<BTreeSet<u32>> = list(word).iter().map(|id| id.parse().ok()).collect();
    Some(Missing::These(ids?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(orders: &[(&str, &str)]) -> Result<Orders, String> {
        let data = orders
            .iter()
            .map(|(key, word)| ((*key).to_owned(), (*word).to_owned()));
        Orders::read(&data.collect())
    }

    #[test]
    fn without_orders_all_is_well() {
        assert_eq!(read(&[]), Ok(Orders::default()));
    }

    #[test]
    fn orders_are_taken() {
        let orders = read(&[
            ("health", "HEALTH_WARN"),
            ("checks", "MON_DISK_LOW, OSD_NEARFULL"),
            ("osds-missing", "0,2"),
            ("upgrade", "stops-after-2"),
            ("cleanup", "fails:node-b"),
            ("drain", "never"),
            ("down", "rook-ceph-osd-0,rook-ceph-mgr-a"),
        ])
        .unwrap();
        assert_eq!(orders.health, "HEALTH_WARN");
        assert_eq!(orders.checks.as_ref().map(Vec::len), Some(2));
        assert!(!orders.makes_osd(2) && orders.makes_osd(1));
        assert_eq!(orders.upgrades, Some(2));
        assert_eq!(orders.cleanup_of("node-a"), Outcome::Ok);
        assert_eq!(orders.cleanup_of("node-b"), Outcome::Fail);
        assert_eq!(orders.drain, None);
        assert!(orders.down.contains("rook-ceph-mgr-a"));
        assert_eq!(
            read(&[("checks", "none")]).unwrap().checks,
            Some(Vec::new())
        );
        assert!(!read(&[("osds-missing", "all")]).unwrap().makes_osd(7));
    }

    #[test]
    fn mistakes_are_errors() {
        for (key, word) in [
            ("helth", "HEALTH_OK"),
            ("ceph", "silnt"),
            ("pool", "ready"),
            ("pace", "fast"),
            ("upgrade", "stops"),
            ("osds-missing", "x"),
        ] {
            assert!(read(&[(key, word)]).is_err(), "{key}");
        }
    }
}
