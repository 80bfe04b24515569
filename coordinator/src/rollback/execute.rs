//! Does the actions of a plan (client required). Nothing is decided here.
//!
//! Every action is safe to repeat: see [`crate::shell::write`].

use hypercloud_api::{RollbackPhase, names};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, PostParams};

use super::build;
use super::observation::Observation;
use super::plan::{present, refused};
use super::verdict::{Action, Plan, Verdict, waiting};
use crate::again::{Again, RECHECK};
use crate::copy;
use crate::copy::execute::{Learnt, act as act_copy};
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
        Verdict::Writing { .. } => None,
        _ => Some(Again::Now),
    }
}

/// Does one action; answers with a verdict where something was learnt.
async fn act(
    shell: &Shell,
    seen: &Observation,
    action: &Action,
) -> Result<Option<Verdict>, ExecuteError> {
    let rollback = &seen.rollback;
    let namespace = rollback.metadata.namespace.as_deref().unwrap_or_default();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(shell.client.clone(), namespace);
    match action {
        Action::AddFinalizer => {
            set_finalizer(&shell.client, rollback, Finalizer::Present).await?;
            Ok(None)
        }
        Action::RemoveFinalizer => {
            set_finalizer(&shell.client, rollback, Finalizer::Absent).await?;
            Ok(None)
        }
        Action::CreateRestored { size, node } => {
            // A plan makes this only where the target is.
            let Some(target) = &seen.target else {
                return Ok(None);
            };
            let claim = build::restored(rollback, target, *size, node.as_deref());
            let made = claims.create(&PostParams::default(), &claim).await;
            Ok(created(made, Creation::CLAIM)?.map(|problem| told(seen, problem)))
        }
        Action::DeleteRestored { uid } => {
            let name = names::restored_claim(seen.uid());
            let gone = claims.delete(&name, &exactly(uid)).await;
            deleted(gone, "delete the restored claim")?;
            Ok(None)
        }
        Action::Copy(action) => {
            let holder = build::holder(rollback, seen.target.as_ref(), seen.attempt());
            Ok(match act_copy(shell, &holder, action).await? {
                Learnt::Done => None,
                Learnt::Told(problem) => Some(told(seen, problem)),
                Learnt::Started(job) => {
                    let node = seen.copy().map(|copy| copy.node_name.clone());
                    let node = node.unwrap_or_default();
                    Some(Verdict::Writing { node, job: *job })
                }
                Learnt::Refused(failure) => Some(refused(seen, failure)),
            })
        }
    }
}

/// What the API server refuses is for the user to read.
fn told(seen: &Observation, problem: Problem) -> Verdict {
    let phase = match present(seen) {
        RollbackPhase::Pending => RollbackPhase::Preparing,
        phase => phase,
    };
    waiting(phase, &problem.reason, problem.message)
}
