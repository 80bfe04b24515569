//! Does the actions of a plan (client required). Nothing is decided here.
//!
//! Every action is safe to repeat: see [`crate::shell::write`].

use hypercloud_api::{DiskPhase, names};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Error as KubeError;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::Value;

use super::build;
use super::observation::Observation;
use super::verdict::{Action, NewHolder, Plan, Verdict, tried, waiting};
use crate::again::{Again, RECHECK};
use crate::copy;
use crate::copy::execute::{Learnt, act as act_on_copy};
use crate::decision::Outcome;
use crate::holder::Problem;
use crate::shell::Shell;
use crate::shell::act::{self, Rules};
use crate::shell::error::ExecuteError;
use crate::shell::write::{Creation, Finalizer, created, deleted, exactly, set_finalizer};

/// Does the actions of `plan` in order and answers with what holds after
/// them.
pub async fn execute(
    shell: &Shell,
    seen: &Observation,
    plan: &Plan,
) -> Result<Outcome<Verdict>, ExecuteError> {
    let rules = Rules {
        is_cancellation: |action| matches!(action, Action::Copy(copy::Action::CancelJob { .. })),
        again,
    };
    act::execute(plan, rules, |action| act(shell, seen, action)).await
}

/// When to look again after what was learnt; as the plan says where a job is
/// at work.
fn again(learnt: &Verdict) -> Option<Again> {
    match learnt {
        Verdict::Waiting { .. } => Some(Again::After(RECHECK)),
        Verdict::Copying { .. } => None,
        _ => Some(Again::Now),
    }
}

/// Does one action; answers with a verdict where something was learnt.
async fn act(
    shell: &Shell,
    seen: &Observation,
    action: &Action,
) -> Result<Option<Verdict>, ExecuteError> {
    let disk = &seen.disk;
    let client = &shell.client;
    let claims = |namespace: &str| -> Api<PersistentVolumeClaim> {
        Api::namespaced(client.clone(), namespace)
    };
    let (own, beside) = (claims(seen.namespace()), claims(seen.source_namespace()));
    match action {
        Action::AddFinalizer => {
            set_finalizer(client, disk, Finalizer::Present).await?;
            Ok(None)
        }
        Action::RemoveFinalizer => {
            set_finalizer(client, disk, Finalizer::Absent).await?;
            Ok(None)
        }
        Action::CreateClaim(new) => {
            let claim = build::claim(disk, new);
            let made = own.create(&PostParams::default(), &claim).await;
            Ok(created(made, Creation::CLAIM)?.map(told))
        }
        Action::CreatePrime(new) => {
            let claim = build::prime(disk, new);
            let made = beside.create(&PostParams::default(), &claim).await;
            Ok(created(made, Creation::CLAIM)?.map(told))
        }
        Action::DeleteClaim {
            uid,
            resource_version,
        } => {
            let exactly = as_seen(uid, resource_version);
            let gone = own.delete(seen.name(), &exactly).await;
            deleted(gone, "delete the claim")?;
            Ok(None)
        }
        Action::DeletePrime { uid } => {
            let name = names::prime_claim(seen.uid());
            let gone = beside.delete(&name, &exactly(uid)).await;
            deleted(gone, "delete the prime claim")?;
            Ok(None)
        }
        Action::PlaceAgain {
            resource_version,
            node,
        } => {
            let patch = build::place_again(resource_version, node.as_deref());
            patched(&own, seen.name(), &patch, "change the claim's node").await?;
            Ok(None)
        }
        Action::HandOver {
            volume,
            resource_version,
            claim_uid,
        } => {
            let volumes: Api<PersistentVolume> = Api::all(client.clone());
            let patch = build::hand_over(disk, resource_version, claim_uid);
            patched(&volumes, volume, &patch, "hand the volume over").await?;
            Ok(None)
        }
        Action::CreateHolder(new) => {
            let action = copy::Action::CreateHolder;
            act_for_copy(shell, seen, Some(new), &action).await
        }
        Action::Copy(action) => act_for_copy(shell, seen, None, action).await,
    }
}

/// Does one action of a copy.
async fn act_for_copy(
    shell: &Shell,
    seen: &Observation,
    new: Option<&NewHolder>,
    action: &copy::Action,
) -> Result<Option<Verdict>, ExecuteError> {
    let holder = build::holder(&seen.disk, seen.attempt(), new);
    let learnt = act_on_copy(shell, &holder, action).await?;
    Ok(match (learnt, action) {
        (Learnt::Done, _) => None,
        (Learnt::Told(problem), _) => Some(told(problem)),
        (Learnt::Started(job), copy::Action::StartJob { node, .. }) => Some(Verdict::Copying {
            node: node.clone(),
            job: *job,
        }),
        (Learnt::Started(_), _) => None,
        (Learnt::Refused(failure), _) => {
            let status = seen.disk.status.as_ref();
            let retry = status.and_then(|status| status.retry.as_ref());
            Some(tried(retry, failure))
        }
    })
}

/// A deletion of the object with this UID, in this version and no later one.
fn as_seen(uid: &str, resource_version: &str) -> DeleteParams {
    DeleteParams::background().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: Some(resource_version.to_owned()),
    })
}

/// Changes an object; one that is gone is left to the next look.
async fn patched<K>(
    objects: &Api<K>,
    name: &str,
    patch: &Value,
    what: &'static str,
) -> Result<(), ExecuteError>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let parameters = PatchParams {
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match objects.patch(name, &parameters, &Patch::Merge(patch)).await {
        Err(KubeError::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => Err(ExecuteError::Write { what, source }),
        Ok(_) => Ok(()),
    }
}

/// What the API server refuses is for the user to read.
fn told(problem: Problem) -> Verdict {
    waiting(DiskPhase::Pending, &problem.reason, problem.message)
}
