//! Does the actions of a plan (client required). Nothing is decided here.
//!
//! Every action is safe to repeat: see [`crate::shell::write`].

use std::time::Duration;

use hypercloud_api::{ExportReadFrom, names};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, PostParams};

use super::build;
use super::observation::Observation;
use super::plan::{told, undiscarded};
use super::retry::{judge, still_rejected};
use super::verdict::{Action, Plan, Upload, Verdict};
use crate::access::read::read;
use crate::access::wanted::WantedStored;
use crate::access::{Resolved, Scope, references_of_object, resolve_object};
use crate::again::{Again, RECHECK};
use crate::agents::source::{SignedAddress, Stored};
use crate::agents::{AgentError, Failure, VolumeKind};
use crate::decision::Outcome;
use crate::holder::Problem;
use crate::holder::read::is_controlled_by;
use crate::shell::Shell;
use crate::shell::act::{self, Rules};
use crate::shell::error::ExecuteError;
use crate::shell::write::{Creation, Finalizer, created, deleted, exactly, set_finalizer};
use crate::volume::snapshot;
use crate::work;
use crate::work::execute::Learnt;

/// What acting needs.
#[derive(Clone, Copy)]
pub struct Hands<'a> {
    /// What the reconciles of every kind share.
    pub shell: &'a Shell,
    /// Where references to Secrets and ConfigMaps lead.
    pub scope: Scope<'a>,
}

/// Does the actions of `plan` in order and answers with what holds after
/// them.
pub async fn execute(
    hands: Hands<'_>,
    seen: &Observation,
    plan: &Plan,
) -> Result<Outcome<Verdict>, ExecuteError> {
    let rules = Rules {
        is_cancellation: |action| matches!(action, Action::Work(work::Action::CancelJob { .. })),
        again,
    };
    act::execute(plan, rules, |action| act(hands, seen, action)).await
}

/// When to look again after what was learnt; as the plan says where a job is
/// at work.
fn again(learnt: &Verdict) -> Option<Again> {
    match learnt {
        Verdict::Waiting { .. } | Verdict::Rejected { .. } | Verdict::Attempted { .. } => {
            Some(Again::After(RECHECK))
        }
        Verdict::Exporting { .. } => None,
        _ => Some(Again::Now),
    }
}

/// Does one action; answers with a verdict where something was learnt.
async fn act(
    hands: Hands<'_>,
    seen: &Observation,
    action: &Action,
) -> Result<Option<Verdict>, ExecuteError> {
    let export = &seen.export;
    let shell = hands.shell;
    let namespace = export.metadata.namespace.as_deref().unwrap_or_default();
    let client = || shell.client.clone();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client(), namespace);
    let snapshots: Api<DynamicObject> =
        Api::namespaced_with(client(), namespace, &snapshot::snapshots());
    let name = names::exported_claim(seen.uid());
    match action {
        Action::AddFinalizer => {
            set_finalizer(&shell.client, export, Finalizer::Present).await?;
            Ok(None)
        }
        Action::RemoveFinalizer => {
            set_finalizer(&shell.client, export, Finalizer::Absent).await?;
            Ok(None)
        }
        Action::Check(object) => match reach(hands, object).await? {
            Ok(reached) => Ok(still_rejected(seen, &reached.secrets)),
            Err(problem) => Ok(Some(told(seen, problem))),
        },
        Action::CreateSnapshot { class } => {
            let snapshot = build::snapshot(export, class);
            let made = snapshots.create(&PostParams::default(), &snapshot).await;
            Ok(created(made, Creation::SNAPSHOT)?.map(|problem| told(seen, problem)))
        }
        Action::DeleteSnapshot { uid } => {
            let gone = snapshots.delete(&name, &exactly(uid)).await;
            deleted(gone, "delete the snapshot")?;
            Ok(None)
        }
        Action::CreateRestored { size } => {
            // A plan makes this only where the claim is.
            let Some(target) = &seen.target else {
                return Ok(None);
            };
            let claim = build::restored(export, target, *size);
            let made = claims.create(&PostParams::default(), &claim).await;
            Ok(created(made, Creation::CLAIM)?.map(|problem| told(seen, problem)))
        }
        Action::DeleteRestored { uid } => {
            let gone = claims.delete(&name, &exactly(uid)).await;
            deleted(gone, "delete the restored claim")?;
            Ok(None)
        }
        Action::Discard {
            node,
            object,
            upload_id,
        } => {
            let reached = match reach(hands, object).await? {
                Ok(reached) => reached,
                Err(problem) => return Ok(Some(told(seen, problem))),
            };
            let discarded = shell.agents.discard(node, &reached.what, upload_id).await;
            match answered(discarded) {
                Ok(()) => Ok(Some(Verdict::Discarded)),
                Err(failure) => Ok(Some(undiscarded(seen, failure, &reached.secrets))),
            }
        }
        Action::Sign {
            node,
            object,
            valid,
        } => sign(hands, seen, node, object, *valid).await.map(Some),
        Action::Work(action) => act_for_work(hands, seen, action).await,
    }
}

/// Does one action of the upload.
async fn act_for_work(
    hands: Hands<'_>,
    seen: &Observation,
    action: &work::Action<Upload>,
) -> Result<Option<Verdict>, ExecuteError> {
    let agents = &hands.shell.agents;
    let reached = match action {
        work::Action::StartJob { job, .. } => match reach(hands, &job.object).await? {
            Ok(reached) => Some(reached),
            Err(problem) => return Ok(Some(told(seen, problem))),
        },
        _ => None,
    };
    let start = |node: String, upload: &Upload| {
        let job = upload.job.clone();
        let object = reached.as_ref().map(|reached| reached.what.clone());
        async move {
            match object {
                Some(object) => agents.export(&node, &job, &object).await,
                None => Err(AgentError::Away { node }),
            }
        }
    };
    let holder = build::holder(&seen.export, seen.read_from(), kind(seen), seen.attempt());
    let learnt = work::execute::act(hands.shell, &holder, action, start).await?;
    Ok(match (learnt, action) {
        (Learnt::Done, _) => None,
        (Learnt::Told(problem), _) => Some(told(seen, problem)),
        (Learnt::Refused(failure), _) => Some(judge(seen, failure)),
        (Learnt::Started(job), work::Action::StartJob { node, .. }) => Some(Verdict::Exporting {
            node: node.clone(),
            job: *job,
            secrets: reached.map(|reached| reached.secrets),
        }),
        (Learnt::Started(_), _) => None,
    })
}

/// How the volume that is read is presented.
fn kind(seen: &Observation) -> VolumeKind {
    let target = || seen.target.as_ref().map(|target| target.mode);
    let restored = || seen.restored.as_ref().map(|restored| restored.mode);
    let mode = match seen.read_from() {
        Some(ExportReadFrom::Snapshot) => restored().or_else(target),
        _ => target(),
    };
    mode.unwrap_or_default().into()
}

/// Makes an address of the object, and the Secret that holds it.
async fn sign(
    hands: Hands<'_>,
    seen: &Observation,
    node: &str,
    object: &WantedStored,
    valid: Duration,
) -> Result<Verdict, ExecuteError> {
    let reached = match reach(hands, object).await? {
        Ok(reached) => reached,
        Err(problem) => return Ok(told(seen, problem)),
    };
    let now = Timestamp::now();
    let signed = hands.shell.agents.presign(node, &reached.what, valid).await;
    let address = match answered(signed) {
        Ok(address) => address,
        Err(Failure {
            reason,
            message,
            retryable: true,
        }) => return Ok(told(seen, Problem { reason, message })),
        Err(Failure {
            reason, message, ..
        }) => {
            let unsigned = Some(format!("{reason}: {message}"));
            return Ok(Verdict::Succeeded { unsigned });
        }
    };
    // Whole seconds, which is what the API keeps, and none too many.
    let seconds = i64::try_from(valid.as_secs()).unwrap_or(0);
    let expires = now.as_second().saturating_add(seconds);
    let expires = Timestamp::from_second(expires).unwrap_or(now);
    keep(hands, seen, &address, expires).await
}

/// Makes the Secret with the `address`. One that is there already is the
/// work of a coordinator that died before it could tell.
async fn keep(
    hands: Hands<'_>,
    seen: &Observation,
    address: &SignedAddress,
    expires: Timestamp,
) -> Result<Verdict, ExecuteError> {
    let export = &seen.export;
    let namespace = export.metadata.namespace.as_deref().unwrap_or_default();
    let secrets: Api<Secret> = Api::namespaced(hands.shell.client.clone(), namespace);
    let secret = build::secret(export, address, expires);
    let name = secret.name_any();
    let made = secrets.create(&PostParams::default(), &secret).await;
    let Some(problem) = created(made, Creation::SECRET)? else {
        return Ok(Verdict::Signed {
            secret: name,
            expires,
        });
    };
    if problem.reason == Creation::SECRET.conflict {
        let found = secrets.get_opt(&name).await.map_err(ExecuteError::Access)?;
        let ours = found.filter(|found| is_controlled_by(&found.metadata, seen.uid()));
        let until = ours.and_then(|ours| {
            let until = ours.annotations().get(names::ANNOTATION_EXPIRES)?;
            until.parse().ok()
        });
        if let Some(expires) = until {
            return Ok(Verdict::Signed {
                secret: name,
                expires,
            });
        }
    }
    Ok(told(seen, problem))
}

/// What an agent has to be told to reach `object`, or what is in the way.
async fn reach(
    hands: Hands<'_>,
    object: &WantedStored,
) -> Result<Result<Resolved<Stored>, Problem>, ExecuteError> {
    let wanted = references_of_object(object, hands.scope);
    let objects = read(&hands.shell.client, wanted)
        .await
        .map_err(ExecuteError::Access)?;
    Ok(resolve_object(object, hands.scope, &objects))
}

/// What an agent answered. That it could not be asked, or refuses, is a failure
/// too, and counted: another one may do it.
fn answered<T>(answer: Result<Result<T, Failure>, AgentError>) -> Result<T, Failure> {
    answer.unwrap_or_else(|error| {
        Err(Failure {
            reason: error.reason().to_owned(),
            message: error.to_string(),
            retryable: true,
        })
    })
}
