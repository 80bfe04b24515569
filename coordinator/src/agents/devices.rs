//! A node's devices as its agent told them last, and what is made of that.
//! Pure: time is an argument.
//!
//! Invariant: what was told counts as a whole, as of a look of the agent's,
//! and only as long as the agent is heard.

pub mod table;

use std::sync::Arc;

use hypercloud_api::CleanupDevice;
use hypercloud_inventory::Inventory;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// How long an agent may be away before its node's devices count as stale: a
/// restart of its pod, or of the coordinator, takes less.
pub const AWAY: SignedDuration = SignedDuration::from_secs(30);
/// How long an agent that is connected may tell of no look: it looks at least
/// once a minute, so two looks are missing by then.
pub const SILENCE: SignedDuration = SignedDuration::from_secs(150);

/// The devices of a node at one look of its agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Grows with each change of the devices.
    pub revision: u64,
    /// The devices: disks before their partitions.
    pub inventory: Inventory,
}

/// How the devices of a node are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceLink {
    /// No agent runs on the node.
    NoAgent {
        /// Since when, as far as this coordinator knows.
        since: Timestamp,
    },
    /// The agent is not connected.
    Away {
        /// Since when, as far as this coordinator knows.
        since: Timestamp,
    },
    /// The agent is of a version that tells no devices.
    TooOld,
    /// The agent tells them.
    Following {
        /// Since when.
        since: Timestamp,
    },
}

/// What is known of a node's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicesSeen {
    /// How they are followed.
    pub link: DeviceLink,
    /// What the agent told last, and when it said so last.
    pub told: Option<(Arc<Told>, Timestamp)>,
}

/// Whether what is known is so now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is.
    Current {
        /// The devices.
        told: Arc<Told>,
        /// When the agent was known to see them.
        heard: Timestamp,
        /// Until when this counts if nothing else is heard.
        until: Timestamp,
    },
    /// Not told yet, and it is too early to say more.
    Expected {
        /// Until when.
        until: Timestamp,
    },
    /// Whatever was known need not be so.
    Lost(Loss),
}

/// Why a node's devices are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No agent runs on the node.
    NoAgent,
    /// Its agent is not reached.
    Unreachable,
    /// Its agent is connected and tells nothing.
    Silent,
    /// Its agent is of a version that tells no devices.
    TooOld,
}

impl Loss {
    /// The loss in one word.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NoAgent => "NoAgent",
            Self::Unreachable => "AgentUnreachable",
            Self::Silent => "AgentSilent",
            Self::TooOld => "AgentTooOld",
        }
    }

    /// The loss for people.
    pub fn message(self, node: &str) -> String {
        match self {
            Self::NoAgent => format!("no node agent runs on node {node}"),
            Self::Unreachable => format!("the agent of node {node} is not reached"),
            Self::Silent => format!("the agent of node {node} tells nothing of its devices"),
            Self::TooOld => {
                format!("the agent of node {node} is of a version that tells no devices: update it")
            }
        }
    }
}

impl DevicesSeen {
    /// What is known of a node that was made at this time: what was heard
    /// before is of another machine of its name.
    pub fn of(&self, created: Option<Timestamp>) -> Self {
        let is_its = |heard: Timestamp| created.is_none_or(|created| created <= heard);
        let told = self.told.clone().filter(|(_, heard)| is_its(*heard));
        let link = match (self.link, created) {
            // From then on it has the time that every node has.
            (DeviceLink::Following { since }, Some(created)) if told.is_none() => {
                let since = since.max(created);
                DeviceLink::Following { since }
            }
            (link, _) => link,
        };
        Self { link, told }
    }

    /// Whether what is known is so at `now`.
    pub fn standing(&self, now: Timestamp) -> Standing {
        let (limit, loss) = match self.link {
            DeviceLink::TooOld => return Standing::Lost(Loss::TooOld),
            DeviceLink::NoAgent { since } => (Some(later(since, AWAY)), Loss::NoAgent),
            DeviceLink::Away { since } => (Some(later(since, AWAY)), Loss::Unreachable),
            DeviceLink::Following { .. } => (None, Loss::Silent),
        };
        if limit.is_some_and(|limit| limit <= now) {
            return Standing::Lost(loss);
        }
        let since = match (&self.told, self.link) {
            (Some((_, heard)), _) => *heard,
            (None, DeviceLink::Following { since }) => since,
            (None, _) => now,
        };
        let silent = later(since, SILENCE);
        let until = limit.map_or(silent, |limit| limit.min(silent));
        if silent <= now {
            return Standing::Lost(Loss::Silent);
        }
        match &self.told {
            Some((told, heard)) => Standing::Current {
                told: Arc::clone(told),
                heard: *heard,
                until,
            },
            None => Standing::Expected { until },
        }
    }
}

/// `time` and `delay` after it.
fn later(time: Timestamp, delay: SignedDuration) -> Timestamp {
    time.checked_add(delay).unwrap_or(Timestamp::MAX)
}

/// A device to be cleaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleaningOrder {
    /// The one device that is meant.
    pub device: CleanupDevice,
    /// Whose order it is: the same in each repeat of it.
    pub reference: String,
}

/// What an agent did to a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// What was removed, as "ext4 at byte 1080".
    pub removed: Vec<String>,
    /// Whether the device took the discard of all its blocks.
    pub discarded: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn told(heard: i64) -> Option<(Arc<Told>, Timestamp)> {
        let inventory = Inventory {
            hostname: None,
            boot_id: None,
            devices: vec![],
        };
        let told = Told {
            revision: 1,
            inventory,
        };
        Some((Arc::new(told), at(heard)))
    }

    fn standing(
        link: DeviceLink,
        told: Option<(Arc<Told>, Timestamp)>,
        now: i64,
    ) -> Result<&'static str, Loss> {
        match (DevicesSeen { link, told }).standing(at(now)) {
            Standing::Current { until, .. } => {
                assert!(until > at(now));
                Ok("current")
            }
            Standing::Expected { until } => {
                assert!(until > at(now));
                Ok("expected")
            }
            Standing::Lost(loss) => Err(loss),
        }
    }

    #[test]
    fn a_short_absence_changes_nothing() {
        let away = DeviceLink::Away { since: at(1000) };
        assert_eq!(standing(away, told(990), 1029), Ok("current"));
        assert_eq!(standing(away, told(990), 1030), Err(Loss::Unreachable));
        assert_eq!(standing(away, None, 1029), Ok("expected"));
        assert_eq!(standing(away, None, 1030), Err(Loss::Unreachable));
        let none = DeviceLink::NoAgent { since: at(1000) };
        assert_eq!(standing(none, None, 1001), Ok("expected"));
        assert_eq!(standing(none, told(999), 1031), Err(Loss::NoAgent));
    }

    #[test]
    fn an_agent_that_looks_no_more_is_not_believed_for_ever() {
        let following = DeviceLink::Following { since: at(1000) };
        assert_eq!(standing(following, None, 1149), Ok("expected"));
        assert_eq!(standing(following, None, 1150), Err(Loss::Silent));
        assert_eq!(standing(following, told(1100), 1249), Ok("current"));
        assert_eq!(standing(following, told(1100), 1250), Err(Loss::Silent));
        // A link that comes and goes is no look either.
        let again = DeviceLink::Away { since: at(1249) };
        assert_eq!(standing(again, told(1100), 1250), Err(Loss::Silent));
        assert_eq!(
            standing(DeviceLink::TooOld, told(1100), 1101),
            Err(Loss::TooOld)
        );
    }
}
