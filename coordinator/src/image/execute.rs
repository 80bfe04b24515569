//! Does the actions of a plan (client required). Nothing is decided here.
//!
//! Every action is safe to repeat: see [`crate::shell::write`].

use hypercloud_api::{ImagePhase, VirtualMachineImageStatus, names};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Client;
use kube::api::{Api, PostParams};

use super::build;
use super::observation::Observation;
use super::retry;
use super::verdict::{Action, Plan, TryFailure, Verdict, waiting};
use crate::access::read::read;
use crate::access::wanted::WantedSource;
use crate::access::{Resolved, Scope, references, resolve};
use crate::again::{Again, RECHECK};
use crate::agents::source::Source;
use crate::agents::{AgentError, Agents};
use crate::decision::Outcome;
use crate::holder::{HolderTemplate, Problem};
use crate::shell::act::{self, Rules};
use crate::shell::error::ExecuteError;
use crate::shell::write::{Creation, Finalizer, created, deleted, exactly, set_finalizer};

/// What acting needs.
#[derive(Clone, Copy)]
pub struct Hands<'a> {
    /// The API server.
    pub client: &'a Client,
    /// The agents.
    pub agents: &'a dyn Agents,
    /// How holders are made.
    pub template: &'a HolderTemplate,
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
        is_cancellation: |action| matches!(action, Action::CancelJob { .. }),
        again,
    };
    act::execute(plan, rules, |action| act(hands, seen, action)).await
}

/// When to look again after what was learnt; as the plan says where a job is
/// at work.
fn again(learnt: &Verdict) -> Option<Again> {
    match learnt {
        Verdict::Waiting { .. } | Verdict::Rejected { .. } | Verdict::Keep => {
            Some(Again::After(RECHECK))
        }
        Verdict::Importing { .. } => None,
        _ => Some(Again::Now),
    }
}

/// Does one action; answers with a verdict where something was learnt.
async fn act(
    hands: Hands<'_>,
    seen: &Observation,
    action: &Action,
) -> Result<Option<Verdict>, ExecuteError> {
    let image = &seen.image;
    let namespace = image.metadata.namespace.as_deref().unwrap_or_default();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(hands.client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(hands.client.clone(), namespace);
    match action {
        Action::AddFinalizer => {
            set_finalizer(hands.client, image, Finalizer::Present).await?;
            Ok(None)
        }
        Action::RemoveFinalizer => {
            set_finalizer(hands.client, image, Finalizer::Absent).await?;
            Ok(None)
        }
        Action::CreateClaim { size } => {
            let made = claims
                .create(&PostParams::default(), &build::claim(image, *size))
                .await;
            Ok(created(made, Creation::CLAIM)?.map(told))
        }
        Action::CreateHolder => {
            let pod = build::holder(image, seen.attempt(), hands.template);
            let made = pods.create(&PostParams::default(), &pod).await;
            Ok(created(made, Creation::HOLDER)?.map(told))
        }
        Action::DeleteClaim { uid } => {
            let name = names::image_claim(seen.name());
            let gone = claims.delete(&name, &exactly(uid)).await;
            deleted(gone, "delete the claim")?;
            Ok(None)
        }
        Action::DeleteHolder { name, uid } => {
            let gone = pods.delete(name, &exactly(uid)).await;
            deleted(gone, "delete the holder pod")?;
            Ok(None)
        }
        Action::Probe { node, source } => {
            let status = image.status.as_ref();
            let reached = match reach(hands, source, ImagePhase::Pending).await? {
                Ok(reached) => reached,
                Err(waits) => return Ok(Some(waits)),
            };
            let secrets = &reached.secrets;
            if let Some(rejected) = retry::still_rejected(status, secrets) {
                return Ok(Some(rejected));
            }
            match hands.agents.probe(node, &reached.what).await {
                Ok(Ok(facts)) => Ok(Some(Verdict::Probed(facts))),
                Ok(Err(failure)) => Ok(Some(retry::judge_probe(status, &failure, secrets))),
                Err(AgentError::Late { .. }) => {
                    let failure = TryFailure {
                        reason: "SourceTimeout".to_owned(),
                        message: "the source did not answer in time".to_owned(),
                        source: true,
                    };
                    Ok(Some(retry::another(status, failure)))
                }
                Err(error) if error.is_answer() => Ok(Some(refused(status, &error))),
                Err(error) => Err(asking("probe the source")(error)),
            }
        }
        Action::StartJob { node, job, source } => {
            let reached = match reach(hands, source, ImagePhase::Importing).await? {
                Ok(reached) => reached,
                Err(waits) => return Ok(Some(waits)),
            };
            match hands.agents.start(node, job, &reached.what).await {
                Ok(job) => Ok(Some(Verdict::Importing {
                    node: node.clone(),
                    job,
                })),
                Err(error @ AgentError::Refused { .. }) => {
                    Ok(Some(refused(image.status.as_ref(), &error)))
                }
                Err(error) => Err(asking("start the job")(error)),
            }
        }
        Action::CancelJob { node, job_id } => {
            let cancelled = hands.agents.cancel(node, job_id).await;
            cancelled.map_err(asking("cancel the job"))?;
            Ok(None)
        }
    }
}

/// What an agent has to be told to reach `source`, or what has to be waited
/// for in `phase`.
async fn reach(
    hands: Hands<'_>,
    source: &WantedSource,
    phase: ImagePhase,
) -> Result<Result<Resolved<Source>, Verdict>, ExecuteError> {
    let objects = read(hands.client, references(source, hands.scope))
        .await
        .map_err(ExecuteError::Access)?;
    let resolved = resolve(source, hands.scope, &objects);
    Ok(resolved.map_err(|problem| waiting(phase, &problem.reason, problem.message)))
}

/// The agent answered, and cannot: the next try may meet another one.
fn refused(status: Option<&VirtualMachineImageStatus>, error: &AgentError) -> Verdict {
    let failure = TryFailure {
        reason: error.reason().to_owned(),
        message: error.to_string(),
        source: false,
    };
    retry::another(status, failure)
}

/// What the API server refuses is for the user to read.
fn told(problem: Problem) -> Verdict {
    waiting(ImagePhase::Preparing, &problem.reason, problem.message)
}

fn asking(what: &'static str) -> impl FnOnce(AgentError) -> ExecuteError {
    move |source| ExecuteError::Agent { what, source }
}
