//! What to do next about one image. Pure: no client, no runtime, no clock.
//!
//! Each plan takes the image one step on, from whatever was found: nothing is
//! remembered between two plans but what the status and the world hold. What
//! must not be forgotten (a failed try, the node of a job, that a job
//! succeeded) is written to the status *before* anything is done about it,
//! so a coordinator may die between any two actions.
//!
//! Invariants, tested over arbitrary worlds: an image becomes Ready only
//! after its job was seen to succeed; a claim that is not the image's own is
//! never deleted; a job is started only with its holder's volume mounted.

mod deletion;
mod leftovers;
mod transfer;

#[cfg(test)]
mod tests;

use std::time::Duration;

use hypercloud_api::conditions::{ConditionStatus, find};
use hypercloud_api::{ImagePhase, SourceStatus, names};
use k8s_openapi::jiff::Timestamp;

use super::observation::{ClaimSeen, Observation, StorageClassSeen};
use super::retry;
use super::size::{self, Demand, Overhead};
use super::validate::{Wanted, validate};
use super::verdict::{Action, Plan, TryFailure, Verdict, waiting};
use crate::access::{DefaultStore, Scope};
use crate::again::{Again, RECHECK, SLOW_RECHECK};
use crate::agents::{Facts, ImageFormat, Packing};
use crate::backoff;

/// What the operator set for all images.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Share of a file system that is not there for the disk.
    pub overhead: Overhead,
    /// The object store of images that name none.
    pub store: DefaultStore,
}

impl Policy {
    /// Where the references of the image that was seen lead.
    pub fn scope<'a>(&'a self, seen: &'a Observation) -> Scope<'a> {
        Scope {
            namespace: seen.image.metadata.namespace.as_deref().unwrap_or_default(),
            store: &self.store,
        }
    }
}

/// What to do next, given what was seen at `now`.
pub fn plan(seen: &Observation, policy: &Policy, now: Timestamp) -> Plan {
    if seen.image.metadata.deletion_timestamp.is_some() {
        return deletion::plan(seen, now);
    }
    if phase(seen) == Some(ImagePhase::Failed) {
        return leftovers::after_failure(seen);
    }
    let wanted = match validate(&seen.image.spec) {
        Ok(wanted) => wanted,
        Err(invalid) => {
            let verdict = Verdict::Failed {
                reason: invalid.reason().to_owned(),
                message: invalid.to_string(),
            };
            return Plan::say(verdict, Again::Now);
        }
    };
    if !seen.has_finalizer(names::FINALIZER) {
        return Plan::one(Action::AddFinalizer, Verdict::Keep, Again::Now);
    }
    if let Some(plan) = foreign_claim(seen) {
        return plan;
    }
    if let Some(plan) = lost_claim(seen) {
        return plan;
    }
    if phase(seen) == Some(ImagePhase::Ready) {
        return leftovers::after_success(seen);
    }
    if let Some(plan) = leftovers::of_other_tries(seen, now) {
        return plan;
    }
    if let Some(plan) = back_off(seen, now) {
        return plan;
    }
    let Some(facts) = verified_facts(seen) else {
        return probe(seen, &wanted);
    };
    if let Some(plan) = mismatch(&wanted, &facts) {
        return plan;
    }
    match claim(seen, &wanted, &facts, policy) {
        Step::Wait(plan) => *plan,
        Step::Go(claim) => {
            let task = transfer::Task {
                wanted: &wanted,
                facts: &facts,
                claim,
                scope: policy.scope(seen),
            };
            transfer::plan(seen, &task, now)
        }
    }
}

/// The source is not of the format that it is said to be.
fn mismatch(wanted: &Wanted, facts: &Facts) -> Option<Plan> {
    let declared = wanted.format.filter(|format| *format != facts.format)?;
    let verdict = Verdict::Failed {
        reason: "FormatMismatch".to_owned(),
        message: format!(
            "the image was said to be {}, but is {}: correct source.format or the source",
            declared.as_str(),
            facts.format.as_str()
        ),
    };
    Some(Plan::say(verdict, Again::Now))
}

/// A step of the way: done, or what to do about it.
enum Step<T> {
    Go(T),
    Wait(Box<Plan>),
}

/// The phase that the status shows.
fn phase(seen: &Observation) -> Option<ImagePhase> {
    seen.image.status.as_ref().and_then(|status| status.phase)
}

/// A claim of the image's name that someone else made is left alone.
fn foreign_claim(seen: &Observation) -> Option<Plan> {
    let claim = seen.claim.as_ref().filter(|claim| !claim.ours)?;
    let name = names::image_claim(seen.name());
    let message = if claim.deleting_since.is_some() {
        format!("waiting for the deletion of the claim {name}, which is not this image's")
    } else {
        format!(
            "the claim {name} exists and is not this image's: delete it, or create an image of another name"
        )
    };
    let verdict = waiting(ImagePhase::Pending, "ClaimConflict", message);
    Some(Plan::say(verdict, Again::After(SLOW_RECHECK)))
}

/// The claim went away under a job or under a finished image: nothing of the
/// try is worth anything any more.
///
/// Only written down here; what is left of the claim and of the try is dealt
/// with by the next plan, as a former try's.
fn lost_claim(seen: &Observation) -> Option<Plan> {
    let status = seen.image.status.as_ref();
    let begun = status.is_some_and(|status| status.transfer.is_some())
        || phase(seen) == Some(ImagePhase::Ready)
        || seen.holder().is_some();
    let what = match seen.own_claim() {
        None => "is gone",
        Some(claim) if claim.deleting_since.is_some() => "is being deleted",
        Some(claim) if claim.lost => "has lost its volume",
        Some(_) => return None,
    };
    let message = format!(
        "the claim {} {what}; the image is imported again",
        names::image_claim(seen.name())
    );
    if !begun {
        return None;
    }
    // Only what was imported once starts over free: a claim that goes away
    // under every try is not run after for ever.
    let verdict = if phase(seen) == Some(ImagePhase::Ready) {
        Verdict::ClaimLost { message }
    } else {
        let failure = TryFailure {
            reason: "ClaimLost".to_owned(),
            message,
            source: false,
        };
        retry::another(status, failure)
    };
    Some(Plan::say(verdict, Again::Now))
}

/// The next try is not made before its time.
fn back_off(seen: &Observation, now: Timestamp) -> Option<Plan> {
    let retry = seen.image.status.as_ref()?.retry.as_ref()?;
    let wait = retry.next_time.as_ref()?.0.duration_since(now);
    let wait = Duration::try_from(wait)
        .ok()
        .filter(|wait| !wait.is_zero())?;
    Some(Plan::say(Verdict::Keep, Again::After(wait)))
}

/// The facts that the present try goes by, once its probe verified them.
fn verified_facts(seen: &Observation) -> Option<Facts> {
    let status = seen.image.status.as_ref()?;
    let verified = find(&status.conditions, super::SOURCE_VERIFIED)
        .is_some_and(|condition| condition.status == ConditionStatus::True.as_str());
    status
        .source
        .as_ref()
        .filter(|_| verified)
        .and_then(from_status)
}

/// The facts that a status holds.
fn from_status(source: &SourceStatus) -> Option<Facts> {
    let packing = source.packing.as_deref().map(Packing::parse);
    Some(Facts {
        format: ImageFormat::parse(&source.format)?,
        packing: match packing {
            None => None,
            Some(packing) => Some(packing?),
        },
        virtual_size: source.virtual_size.map(u64::try_from).transpose().ok()?,
        source_size: source.size.and_then(|size| u64::try_from(size).ok()),
        validator: source.validator.clone(),
        ranges: source.ranges.unwrap_or(false),
    })
}

/// Any agent looks at the source; which one is spread over the images.
fn probe(seen: &Observation, wanted: &Wanted) -> Plan {
    let agents = &seen.agents.synced;
    if agents.is_empty() && retry::rejection(seen.image.status.as_ref()).is_some() {
        // It is the Secret that is waited for, not an agent.
        return Plan::say(Verdict::Keep, Again::After(RECHECK));
    }
    let pick = backoff::hash(seen.uid(), seen.attempt()) as usize;
    let Some(node) = pick
        .checked_rem(agents.len())
        .and_then(|index| agents.get(index))
    else {
        let verdict = waiting(
            ImagePhase::Pending,
            "NoAgentReady",
            "waiting for a node agent that is ready: none is connected",
        );
        return Plan::say(verdict, Again::After(RECHECK));
    };
    if phase(seen).is_none() {
        // A probe can take a while: people see at once that it is on its way.
        let verdict = waiting(ImagePhase::Pending, "Probing", "looking at the source");
        return Plan::say(verdict, Again::Now);
    }
    Plan::one(
        Action::Probe {
            node: node.clone(),
            source: wanted.source.clone(),
        },
        waiting(ImagePhase::Pending, "Probing", "looking at the source"),
        Again::Now,
    )
}

/// The image's claim, of the size that its facts ask for.
fn claim<'a>(
    seen: &'a Observation,
    wanted: &Wanted,
    facts: &Facts,
    policy: &Policy,
) -> Step<&'a ClaimSeen> {
    let demand = Demand {
        virtual_size: facts.virtual_size,
        mode: wanted.mode,
        at_least: wanted.at_least,
        overhead: policy.overhead,
    };
    let size = match size::claim(&demand) {
        Ok(size) => size,
        Err(error) => {
            let verdict = Verdict::Failed {
                reason: error.reason().to_owned(),
                message: error.to_string(),
            };
            return Step::Wait(Box::new(Plan::say(verdict, Again::Now)));
        }
    };
    let Some(claim) = seen.own_claim() else {
        return Step::Wait(Box::new(create_claim(seen, size)));
    };
    let name = names::image_claim(seen.name());
    if claim.deleting_since.is_some() {
        let message = format!("waiting for the deletion of the former claim {name}");
        let verdict = waiting(ImagePhase::Preparing, "ClaimTerminating", message);
        return Step::Wait(Box::new(Plan::say(verdict, Again::After(RECHECK))));
    }
    // A disk that is there fits, whatever was asked for.
    let too_small = claim.requested < size && seen.holder().is_none() && !is_complete(seen);
    if claim.lost || too_small {
        // Its volume went away, or the source grew since the claim was made.
        let message = format!("replacing the former claim {name}");
        let plan = Plan::one(
            Action::DeleteClaim {
                uid: claim.uid.clone(),
            },
            waiting(ImagePhase::Preparing, "ClaimTerminating", message),
            Again::Now,
        );
        return Step::Wait(Box::new(plan));
    }
    Step::Go(claim)
}

/// Whether the present try's job was seen to succeed.
fn is_complete(seen: &Observation) -> bool {
    let status = seen.image.status.as_ref();
    status
        .and_then(|status| status.transfer.as_ref())
        .is_some_and(|transfer| {
            transfer.job_id == seen.job_id() && transfer.completion_time.is_some()
        })
}

/// Makes the claim, unless its storage class is not there.
fn create_claim(seen: &Observation, size: u64) -> Plan {
    let missing = match &seen.storage_class {
        StorageClassSeen::Found => {
            let verdict = waiting(
                ImagePhase::Preparing,
                "CreatingClaim",
                "the image's claim is being made",
            );
            return Plan::one(Action::CreateClaim { size }, verdict, Again::Now);
        }
        StorageClassSeen::Missing(name) => {
            format!("the StorageClass {name} does not exist: create it, and the import goes on")
        }
        StorageClassSeen::NoDefault => {
            "no StorageClass is named and the cluster has no default one: mark one as default, and the import goes on".to_owned()
        }
    };
    let verdict = waiting(ImagePhase::Preparing, "StorageClassNotFound", missing);
    Plan::say(verdict, Again::After(RECHECK))
}
