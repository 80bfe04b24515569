//! A volume that is filled beside its source and then changes hands.
//!
//! The disk's claim is there first: quota counts it, and the scheduler says
//! where its first consumer goes. The volume belongs to the prime claim until
//! one write gives it to the disk's claim; at any crash it belongs to exactly
//! one of them and goes with it.

use hypercloud_api::{DiskMethod, DiskPhase};
use k8s_openapi::jiff::Timestamp;

use super::super::method::Recipe;
use super::super::observation::{ClaimSeen, Observation, OriginSeen, PrimeSeen};
use super::super::verdict::{Action, NewPrime, Plan, Verdict, waiting};
use super::{PROVISIONING_RECHECK, copy_instead, copying, first_consumer, leftovers, provisioning};
use crate::again::{Again, RECHECK};
use crate::backoff;

/// What is to be made from what.
pub(super) struct Task<'a> {
    /// How.
    pub method: DiskMethod,
    /// What the disk's claim is to be.
    pub recipe: &'a Recipe,
    /// The source's claim.
    pub origin: &'a OriginSeen,
    /// The disk's claim, without a volume yet.
    pub claim: &'a ClaimSeen,
}

/// Once all of the data is there no source is needed any more: the volume
/// changes hands, and is waited for.
pub(super) fn finish(seen: &Observation, now: Timestamp) -> Option<Plan> {
    let method = seen.method().filter(|method| super::is_handed(*method))?;
    let claim = seen.own_claim().filter(|claim| claim.handed)?;
    let prime = seen.own_prime()?;
    let phase = phase(method);
    let message = format!("the volume is being given to the claim {}", seen.name());
    let verdict = waiting(phase, "HandingOver", message);
    if seen.is_handed_over() {
        return Some(Plan::say(verdict, Again::After(PROVISIONING_RECHECK)));
    }
    let volume = prime.volume.as_ref()?;
    // One that is Released meanwhile is being deleted.
    let is_its_own = volume.bound && volume.claim_uid.as_ref() == Some(&prime.uid);
    if !is_its_own || !prime.bound || prime.deleting_since.is_some() {
        return None;
    }
    if prime.cloned != (method == DiskMethod::CloneAndHandOver) {
        return None;
    }
    if method == DiskMethod::Copy
        && let Some(plan) = copying::unfinished(seen, now)?
    {
        return Some(plan);
    }
    let action = Action::HandOver {
        volume: volume.name.clone(),
        resource_version: volume.resource_version.clone(),
        claim_uid: claim.uid.clone(),
    };
    Some(Plan::one(action, verdict, Again::Now))
}

/// The step that comes next, the disk's claim being there.
pub(super) fn plan(seen: &Observation, task: &Task<'_>, now: Timestamp) -> Plan {
    let Some(prime) = seen.own_prime() else {
        return begin(seen, task);
    };
    if prime.deleting_since.is_some() {
        // It goes once nothing has it mounted any more.
        let message = "waiting for the end of the former volume";
        let verdict = waiting(DiskPhase::Pending, "ClaimTerminating", message);
        let actions = leftovers::stop(seen);
        let again = match actions[..] {
            [] => Again::After(RECHECK),
            _ => Again::Now,
        };
        return Plan {
            actions,
            verdict,
            again,
        };
    }
    let of_another = prime
        .volume
        .as_ref()
        .is_some_and(|volume| prime.bound && volume.claim_uid.as_ref() != Some(&prime.uid));
    let clones = task.method == DiskMethod::CloneAndHandOver;
    if prime.lost || of_another || prime.cloned != clones {
        return replace(seen, prime, Verdict::Keep);
    }
    if !prime.bound {
        return unbound(seen, task, prime, now);
    }
    if clones {
        // What is left is done as soon as the volume itself is seen.
        return Plan::say(Verdict::Keep, Again::After(PROVISIONING_RECHECK));
    }
    copying::plan(seen, task, prime, now)
}

/// The prime claim waits for its volume.
fn unbound(seen: &Observation, task: &Task<'_>, prime: &PrimeSeen, now: Timestamp) -> Plan {
    let Task {
        method,
        recipe,
        claim,
        origin,
    } = task;
    if *method == DiskMethod::CloneAndHandOver
        && let Some(refusal) = &prime.provisioning.refusal
    {
        return copy_instead(refusal);
    }
    if recipe.class.waits && prime.node != claim.selected_node {
        // Taken off by the provisioner: no volume can be made for that node.
        let refused = prime.node.is_none() && claim.selected_node.is_some();
        if !refused {
            return replace(seen, prime, Verdict::Keep);
        }
        let node = claim.selected_node.as_deref().unwrap_or_default();
        let said = prime.provisioning.problem.as_ref();
        let said = said.map_or_else(String::new, |problem| format!(": {}", problem.message));
        let message = format!(
            "the storage cannot make a volume for the node {node}, so the pod that uses the claim is placed again{said}"
        );
        let verdict = waiting(DiskPhase::Pending, "NodeRefused", message);
        let mut plan = replace(seen, prime, verdict);
        plan.actions.insert(0, place_again(claim, None));
        return plan;
    }
    let message = match method {
        DiskMethod::Copy => "the volume that the data is copied to is being made".to_owned(),
        _ => format!("the storage clones the volume of {}", origin.name),
    };
    let age = prime.since.map(|since| now.duration_since(since));
    provisioning(&prime.provisioning, message, age)
}

/// Makes the prime claim, once it is known for which node.
fn begin(seen: &Observation, task: &Task<'_>) -> Plan {
    if let Some(plan) = first_consumer(task.recipe, task.claim) {
        return plan;
    }
    let Task {
        method,
        recipe,
        origin,
        claim,
    } = task;
    let selected = claim.selected_node.clone().filter(|_| recipe.class.waits);
    let node = if *method == DiskMethod::Copy {
        if let Some(plan) = copying::obstacle(seen, origin) {
            return plan;
        }
        match node_for_copy(seen, task, selected) {
            Ok(node) => node,
            Err(plan) => return *plan,
        }
    } else {
        selected
    };
    let prime = NewPrime {
        from: (*method == DiskMethod::CloneAndHandOver).then(|| origin.name.clone()),
        class: recipe.class.name.clone(),
        mode: recipe.mode,
        access_modes: recipe.access_modes.clone(),
        size: recipe.size.bytes,
        node,
    };
    Plan::one(Action::CreatePrime(prime), Verdict::Keep, Again::Now)
}

/// The node that the prime claim is made for. Source and copy have to meet on
/// one node, which matters where a volume is not everywhere.
fn node_for_copy(
    seen: &Observation,
    task: &Task<'_>,
    selected: Option<String>,
) -> Result<Option<String>, Box<Plan>> {
    let Some(nodes) = &task.origin.nodes else {
        return Ok(selected);
    };
    if selected.as_ref().is_some_and(|node| nodes.contains(node)) {
        return Ok(selected);
    }
    let source = &task.origin.name;
    // Any of them will do; the copies are spread over them.
    let agents = &seen.agents.synced;
    let with_agent: Vec<&String> = nodes.iter().filter(|n| agents.contains(n)).collect();
    let pick = backoff::hash(seen.uid(), seen.attempt()) as usize;
    let index = pick.checked_rem(with_agent.len());
    let Some(node) = index.and_then(|index| with_agent.get(index)) else {
        let message = format!(
            "waiting for a node agent on a node that the volume of {source} can be attached to: {}",
            list(nodes)
        );
        let verdict = waiting(DiskPhase::Pending, "NoAgentReady", message);
        return Err(Box::new(Plan::say(verdict, Again::After(RECHECK))));
    };
    let Some(selected) = selected else {
        return Ok(Some((*node).clone()));
    };
    // The scheduler would choose the same node again and again.
    let message = format!(
        "the data has to be copied, and the volume of {source} can only be attached to {}: the pod that uses the claim was placed on {selected} and is placed on {node} instead",
        list(nodes)
    );
    let verdict = waiting(DiskPhase::Pending, "SourceElsewhere", message);
    let action = place_again(task.claim, Some((*node).clone()));
    Err(Box::new(Plan::one(action, verdict, Again::OnChange)))
}

fn list(nodes: &[String]) -> String {
    match nodes {
        [] => "no node of the cluster".to_owned(),
        nodes => nodes.join(", "),
    }
}

fn place_again(claim: &ClaimSeen, node: Option<String>) -> Action {
    Action::PlaceAgain {
        resource_version: claim.resource_version.clone(),
        node,
    }
}

/// The prime claim is of no use: it is made anew.
fn replace(seen: &Observation, prime: &PrimeSeen, verdict: Verdict) -> Plan {
    let uid = prime.uid.clone();
    let mut actions = leftovers::stop(seen);
    actions.push(Action::DeletePrime { uid });
    Plan {
        actions,
        verdict,
        again: Again::Now,
    }
}

/// The phase of a disk whose volume is being filled like this.
fn phase(method: DiskMethod) -> DiskPhase {
    match method {
        DiskMethod::Copy => DiskPhase::Copying,
        _ => DiskPhase::Cloning,
    }
}
