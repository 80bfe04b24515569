//! Where a cleaning is, as its resource tells it. Values in, values out.

use hypercloud_api::{CleanupPhase, NodeDeviceCleanup};
use serde::Serialize;

use crate::cluster::{Course, Figures, Followed, Outcome, Said, Step, Work};
use crate::devices::plain;

/// Reasons of what was not refused where it was settled which device is meant:
/// something may have been done to it.
const TRIED: [&str; 8] = [
    "AgentTooOld",
    "AgentUnreachable",
    "CleaningFailed",
    "CleaningInterrupted",
    "Expired",
    "LeftoversRemain",
    "NodeNotFound",
    "Unreadable",
];

/// The reason of what could not begin in time.
const EXPIRED: &str = "Expired";

/// Of a cleaning nothing is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Uncounted {}

impl Figures for Uncounted {
    fn shown(&self) -> String {
        String::new()
    }
}

/// A device that holds nothing any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cleaned {
    /// The device, as the kernel called it then.
    pub(crate) device: String,
    /// What was removed.
    pub(crate) removed: Vec<String>,
    /// Whether all of its blocks were discarded.
    pub(crate) discarded: bool,
    /// For people.
    pub(crate) message: String,
}

impl Outcome for Cleaned {
    fn shown(&self) -> String {
        let mut lines = vec![format!("cleaned: {}", plain(&self.device))];
        if self.removed.is_empty() {
            lines.push("  nothing was on it".to_owned());
        }
        let removed = self.removed.iter();
        lines.extend(removed.map(|removed| format!("  removed: {}", plain(removed))));
        lines.push(if self.discarded {
            "  all of its blocks were discarded".to_owned()
        } else {
            "  it takes no discards: what was not at its ends may still be read from it".to_owned()
        });
        lines.join("\n")
    }
}

impl Followed for NodeDeviceCleanup {
    type Figures = Uncounted;
    type Done = Cleaned;
    const WORK: &'static Work = &Work {
        word: "cleanup",
        kind: "NodeDeviceCleanup",
        resource: "nodedevicecleanup",
        vanished: "what the agent has begun it finishes; look at the device",
    };

    fn course(&self) -> Course<Uncounted, Cleaned> {
        let status = self.status.clone().unwrap_or_default();
        let said = Said::of(&status.conditions);
        let phase = status.phase.unwrap_or_default();
        match phase {
            CleanupPhase::Succeeded => Course::Done(Cleaned {
                device: status.device.map(|device| device.path).unwrap_or_default(),
                removed: status.removed,
                discarded: status.discarded.unwrap_or_default(),
                message: said.message,
            }),
            CleanupPhase::Failed
                if status.device.is_some() && TRIED.contains(&said.reason.as_str()) =>
            {
                Course::Failed(said)
            }
            CleanupPhase::Failed if said.reason == EXPIRED => Course::Failed(said),
            CleanupPhase::Failed => Course::of_failed(said),
            CleanupPhase::Pending | CleanupPhase::Cleaning => Course::UnderWay(Step {
                phase: phase.as_str(),
                said,
                ..Step::default()
            }),
        }
    }
}
