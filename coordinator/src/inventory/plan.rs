//! What to do about a node's inventory. Pure.

use hypercloud_api::NodeDeviceInventory;
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;

use super::observation::Observation;
use super::status::HEARTBEAT;
use super::verdict::{Action, Plan, Verdict};
use crate::again::Again;
use crate::agents::devices::Standing;

/// The soonest look at what only time changes.
const SOON: Duration = Duration::from_secs(1);

/// How often an inventory that is to come is looked for.
const EXPECTING: Duration = Duration::from_secs(10);

/// What to do about what was seen.
pub fn plan(seen: &Observation, now: Timestamp) -> Plan {
    let Some(inventory) = &seen.inventory else {
        return match &seen.node {
            Some(_) => Plan::act([Action::Create], Verdict::Keep),
            None => Plan::say(Verdict::Keep, Again::OnChange),
        };
    };
    if inventory.metadata.deletion_timestamp.is_some() {
        return Plan::say(Verdict::Keep, Again::OnChange);
    }
    if !seen
        .node
        .as_ref()
        .is_some_and(|node| is_of(inventory, &node.uid))
    {
        // The node is gone, or is another one of the same name.
        let uid = inventory.metadata.uid.clone().unwrap_or_default();
        return Plan::act([Action::Delete { uid }], Verdict::Keep);
    }
    let devices = seen.devices();
    match devices.standing(now) {
        Standing::Current { told, heard, until } => {
            let beat = seen
                .status()
                .and_then(|status| status.heartbeat_time.as_ref())
                .map_or(heard, |time| time.0)
                .checked_add(HEARTBEAT)
                .unwrap_or(Timestamp::MAX);
            // One that is due is renewed with this very look.
            let next = if beat <= now { until } else { beat.min(until) };
            Plan::say(Verdict::Current { told, heard }, at(next, now))
        }
        // A look that brings no news tells nobody.
        Standing::Expected { until } => {
            let again = at(until, now);
            let again = match again {
                Again::After(wait) => Again::After(wait.min(EXPECTING)),
                again => again,
            };
            Plan::say(Verdict::Expected, again)
        }
        Standing::Lost(loss) => {
            let told = devices.told;
            Plan::say(Verdict::Lost { loss, told }, Again::OnChange)
        }
    }
}

/// Whether the inventory is of the node with this UID.
pub fn is_of(inventory: &NodeDeviceInventory, uid: &str) -> bool {
    let owners = inventory.metadata.owner_references.as_ref();
    owners
        .into_iter()
        .flatten()
        .any(|owner| owner.kind == "Node" && owner.uid == uid)
}

fn at(time: Timestamp, now: Timestamp) -> Again {
    let wait = Duration::try_from(time.duration_since(now)).unwrap_or_default();
    Again::After(wait.max(SOON))
}
