//! Does what work takes beside its job (client required). Nothing is decided
//! here.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams};

use super::plan::Action;
use crate::agents::{AgentError, Failure, Job};
use crate::holder::{HolderPod, Problem, build};
use crate::shell::Shell;
use crate::shell::error::ExecuteError;
use crate::shell::write::{Creation, created, deleted, exactly};

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learnt {
    /// It is done.
    Done,
    /// The API server refuses: for the user to read.
    Told(Problem),
    /// The job as it stands.
    Started(Box<Job>),
    /// The agent answered, and cannot: the next try may meet another one.
    Refused(Failure),
}

/// Does one action for the holder pod that `holder` describes; `start` starts
/// a job on a node.
pub async fn act<J, F>(
    shell: &Shell,
    holder: &HolderPod,
    action: &Action<J>,
    start: impl FnOnce(String, &J) -> F,
) -> Result<Learnt, ExecuteError>
where
    F: Future<Output = Result<Job, AgentError>>,
{
    let namespace = holder.namespace.as_deref().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(shell.client.clone(), namespace);
    match action {
        Action::CreateHolder => {
            let pod = build::pod(holder, &shell.template);
            let made = pods.create(&PostParams::default(), &pod).await;
            Ok(created(made, Creation::HOLDER)?.map_or(Learnt::Done, Learnt::Told))
        }
        Action::DeleteHolder { name, uid } => {
            let gone = pods.delete(name, &exactly(uid)).await;
            deleted(gone, "delete the holder pod")?;
            Ok(Learnt::Done)
        }
        Action::StartJob { node, job } => match start(node.clone(), job).await {
            Ok(job) => Ok(Learnt::Started(Box::new(job))),
            Err(error @ AgentError::Refused { .. }) => Ok(Learnt::Refused(Failure {
                reason: error.reason().to_owned(),
                message: error.to_string(),
                retryable: true,
            })),
            Err(source) => Err(ExecuteError::Agent {
                what: "start the job",
                source,
            }),
        },
        Action::CancelJob { node, job_id } => {
            let cancelled = shell.agents.cancel(node, job_id).await;
            cancelled.map_err(|source| ExecuteError::Agent {
                what: "cancel the job",
                source,
            })?;
            Ok(Learnt::Done)
        }
    }
}
