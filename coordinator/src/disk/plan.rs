//! What to do next about one disk. Pure: no client, no runtime, no clock.
//!
//! Each plan takes the disk one step on, from whatever was found: nothing is
//! remembered between two plans but what the status and the world hold. What
//! must not be forgotten (the method and the source, a failed try, that a
//! copy is complete) is written to the status *before* anything is done about
//! it, so a coordinator may die between any two actions.
//!
//! Invariants, tested over arbitrary worlds: a volume is given to the disk's
//! claim only when all of its data is there and nothing has it mounted; a
//! claim that is not the disk's own is never touched, nor is one of its own
//! that was bound since it was seen.

mod copying;
mod deletion;
mod handover;
mod leftovers;
mod source;

#[cfg(test)]
mod tests;

use std::time::Duration;

use hypercloud_api::{DiskMethod, DiskPhase, names};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::method::{self, Found, Recipe};
use super::observation::{ClaimSeen, Observation, Provisioning};
use super::validate::{Wanted, validate};
use super::verdict::{Action, NewClaim, Plan, Verdict, failed, waiting};
use crate::again::{Again, RECHECK, SLOW_RECHECK};
use crate::image::size::Overhead;
use crate::work::retry;

/// How often a claim that is being provisioned is looked at: that it is bound
/// is told by a watch, that its driver does not clone only by Events.
const PROVISIONING_RECHECK: Duration = Duration::from_secs(2);
/// The same of one that takes long, but for no reason that is known.
const PROVISIONING_SLOW: Duration = Duration::from_secs(5);
/// How long a claim is looked at that often.
const PROVISIONING_YOUNG: SignedDuration = SignedDuration::from_secs(30);

/// What the operator set for all disks.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Share of a file system that is not there for the disk.
    pub overhead: Overhead,
}

/// What to do next, given what was seen at `now`.
pub fn plan(seen: &Observation, policy: &Policy, now: Timestamp) -> Plan {
    if seen.disk.metadata.deletion_timestamp.is_some() {
        return deletion::plan(seen, now);
    }
    if seen.phase() == Some(DiskPhase::Failed) {
        return leftovers::after_failure(seen, now);
    }
    let wanted = match validate(seen.namespace(), seen.name(), &seen.disk.spec) {
        Ok(wanted) => wanted,
        Err(invalid) => {
            let verdict = failed(invalid.reason(), invalid.to_string());
            return Plan::say(verdict, Again::Now);
        }
    };
    if !seen.has_finalizer(names::FINALIZER) {
        return Plan::one(Action::AddFinalizer, Verdict::Keep, Again::Now);
    }
    foreign(seen)
        .or_else(|| arrived(seen, now))
        .or_else(|| terminating(seen))
        .or_else(|| handover::finish(seen, now))
        .or_else(|| source::renew(seen, &wanted, now))
        .or_else(|| leftovers::of_other_tries(seen))
        .or_else(|| back_off(seen, now))
        .unwrap_or_else(|| make(seen, &wanted, policy, now))
}

/// The step that comes next, nothing being in the way: the source, the
/// method, the claim, its data.
fn make(seen: &Observation, wanted: &Wanted, policy: &Policy, now: Timestamp) -> Plan {
    let found = match source::find(seen, wanted) {
        Ok(found) => found,
        Err(missing) => return missing.plan(),
    };
    let recipe = match method::recipe(seen, wanted, found, policy.overhead) {
        Ok(recipe) => recipe,
        Err(error) if error.is_waiting() => {
            let verdict = waiting(DiskPhase::Pending, error.reason(), error.to_string());
            return Plan::say(verdict, Again::After(RECHECK));
        }
        Err(error) => {
            return Plan::say(failed(error.reason(), error.to_string()), Again::Now);
        }
    };
    let Some(method) = seen.method() else {
        let verdict = Verdict::Chosen {
            method: recipe.method,
            source: recipe.source,
            raised: method::raised(&recipe.size),
        };
        return Plan::say(verdict, Again::Now);
    };
    let claim = match claim(seen, method, &recipe, found) {
        Ok(claim) => claim,
        Err(plan) => return *plan,
    };
    match (method, found) {
        (DiskMethod::CloneAndHandOver | DiskMethod::Copy, Found::Claim { origin, .. }) => {
            let task = handover::Task {
                method,
                recipe: &recipe,
                origin,
                claim,
            };
            handover::plan(seen, &task, now)
        }
        _ => provision(method, &recipe, claim, now),
    }
}

/// A claim of one of the disk's names that someone else made is left alone.
fn foreign(seen: &Observation) -> Option<Plan> {
    let own = seen.claim.as_ref().filter(|claim| !claim.ours);
    let prime = seen.prime.as_ref().filter(|prime| !prime.ours);
    let message = match (own, prime) {
        (Some(claim), _) if claim.deleting => format!(
            "waiting for the deletion of the claim {}, which is not this disk's",
            seen.name()
        ),
        (Some(_), _) => format!(
            "the claim {} exists and is not this disk's: delete it, or create a disk of another name",
            seen.name()
        ),
        (None, Some(_)) => format!(
            "the claim {} of the namespace {} exists and is not this disk's: delete it",
            names::prime_claim(seen.uid()),
            seen.source_namespace()
        ),
        (None, None) => return None,
    };
    // A disk that was done and lost its claim is told of as that.
    if own.is_some() && seen.phase() == Some(DiskPhase::Ready) {
        return None;
    }
    // A disk that is done needs no prime claim.
    if own.is_none()
        && seen
            .own_claim()
            .is_some_and(|claim| claim.volume_name.is_some())
    {
        return None;
    }
    let verdict = waiting(DiskPhase::Pending, "ClaimConflict", message);
    Some(Plan::say(verdict, Again::After(SLOW_RECHECK)))
}

/// The claim has its volume, or had one: the disk is done, or over. It is
/// never made anew by itself, because nobody wants a fresh disk in place of
/// his own.
fn arrived(seen: &Observation, now: Timestamp) -> Option<Plan> {
    let over = |what: &str| {
        let message = format!(
            "the claim {} {what}; a disk is not made anew by itself: delete the VirtualMachinePvc and create it again",
            seen.name()
        );
        Some(Plan::say(failed("ClaimLost", message), Again::Now))
    };
    let ready = seen.phase() == Some(DiskPhase::Ready);
    let claim = match seen.own_claim() {
        None if ready => return over("is gone"),
        None => return None,
        Some(claim) => claim,
    };
    if claim.lost {
        return over("has lost its volume");
    }
    claim.volume_name.as_ref()?;
    if claim.filled_by_others && !ready {
        let message = format!(
            "the claim {} was given a volume by somebody else, who paid no heed to its data source; its provisioner cannot be used for this: delete the VirtualMachinePvc and create one with another StorageClass",
            seen.name()
        );
        return Some(Plan::say(failed("VolumeNotOurs", message), Again::Now));
    }
    if !ready {
        let capacity = claim.capacity;
        return Some(Plan::say(Verdict::Ready { capacity }, Again::Now));
    }
    Some(leftovers::after_success(seen, claim, now))
}

/// The claim is being deleted before it had a volume: wait for its end.
fn terminating(seen: &Observation) -> Option<Plan> {
    seen.own_claim().filter(|claim| claim.deleting)?;
    let message = format!(
        "waiting for the deletion of the former claim {}",
        seen.name()
    );
    let verdict = waiting(DiskPhase::Pending, "ClaimTerminating", message);
    Some(Plan::say(verdict, Again::After(RECHECK)))
}

/// The next try is not made before its time.
fn back_off(seen: &Observation, now: Timestamp) -> Option<Plan> {
    let retry = seen.disk.status.as_ref()?.retry.as_ref();
    let wait = retry::wait(retry, now)?;
    Some(Plan::say(Verdict::Keep, Again::After(wait)))
}

/// The disk's claim as it has to be for `method`; or what to do about it.
fn claim<'a>(
    seen: &'a Observation,
    method: DiskMethod,
    recipe: &Recipe,
    found: Found<'_>,
) -> Result<&'a ClaimSeen, Box<Plan>> {
    let Some(claim) = seen.own_claim() else {
        return Err(Box::new(create_claim(method, recipe, found)));
    };
    let fits = claim.handed == is_handed(method) && claim.requested >= recipe.size.bytes;
    if fits {
        return Ok(claim);
    }
    // Another method was found to be needed, or the source grew since.
    let message = format!("replacing the former claim {}", seen.name());
    Err(Box::new(Plan::one(
        delete_claim(claim),
        waiting(DiskPhase::Pending, "ClaimTerminating", message),
        Again::Now,
    )))
}

fn create_claim(method: DiskMethod, recipe: &Recipe, found: Found<'_>) -> Plan {
    if let Some(plan) = source::leaving(found, &recipe.source.name) {
        return plan;
    }
    let (from, image) = match found {
        Found::Claim { origin, image } => (origin.name.clone(), image),
        Found::Snapshot(_) => (recipe.source.name.clone(), None),
    };
    let claim = NewClaim {
        method,
        from,
        class: recipe.class.name.clone(),
        mode: recipe.mode,
        access_modes: recipe.access_modes.clone(),
        size: recipe.size.bytes,
        carried: recipe.carried.clone(),
        image_uid: image.map(|image| image.uid.clone()),
    };
    Plan::one(Action::CreateClaim(claim), Verdict::Keep, Again::Now)
}

/// The storage makes the claim's volume by itself.
fn provision(method: DiskMethod, recipe: &Recipe, claim: &ClaimSeen, now: Timestamp) -> Plan {
    if method == DiskMethod::Clone
        && let Some(refusal) = &claim.provisioning.refusal
    {
        return copy_instead(refusal);
    }
    if let Some(plan) = first_consumer(recipe, claim) {
        return plan;
    }
    let verb = if method == DiskMethod::Restore {
        "restores the snapshot"
    } else {
        "clones the volume of"
    };
    let message = format!("the storage {verb} {}", recipe.source.name);
    let age = claim.since.map(|since| now.duration_since(since));
    provisioning(&claim.provisioning, message, age)
}

/// The driver does not clone: from now on the disk is a copy.
fn copy_instead(refusal: &str) -> Plan {
    let message = format!("the storage does not clone, so the data is copied: {refusal}");
    Plan::say(Verdict::CopyInstead { message }, Again::Now)
}

/// Where the class says so, nothing is made before the scheduler has placed
/// the first pod that uses the claim.
fn first_consumer(recipe: &Recipe, claim: &ClaimSeen) -> Option<Plan> {
    if !recipe.class.waits || claim.selected_node.is_some() {
        return None;
    }
    let message = format!(
        "the StorageClass {} makes volumes where they are first used: waiting for a pod that uses the claim",
        recipe.class.name
    );
    let verdict = waiting(DiskPhase::Pending, "WaitForFirstConsumer", message);
    Some(Plan::say(verdict, Again::OnChange))
}

/// A claim of this `age` is being provisioned, or something is in its way.
fn provisioning(seen: &Provisioning, message: String, age: Option<SignedDuration>) -> Plan {
    let verdict = match &seen.problem {
        Some(problem) => waiting(DiskPhase::Cloning, &problem.reason, &problem.message),
        None => waiting(DiskPhase::Cloning, "Cloning", message),
    };
    let young = age.is_none_or(|age| age < PROVISIONING_YOUNG);
    let delay = match seen.problem {
        _ if young => PROVISIONING_RECHECK,
        None => PROVISIONING_SLOW,
        Some(_) => RECHECK,
    };
    Plan::say(verdict, Again::After(delay))
}

/// Whether the volume of a disk made like this changes hands.
fn is_handed(method: DiskMethod) -> bool {
    matches!(method, DiskMethod::CloneAndHandOver | DiskMethod::Copy)
}

/// Deletes the disk's claim as it was seen.
fn delete_claim(claim: &ClaimSeen) -> Action {
    Action::DeleteClaim {
        uid: claim.uid.clone(),
        resource_version: claim.resource_version.clone(),
    }
}
