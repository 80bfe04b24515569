//! The calls of the protocol.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use hypercloud_proto::agent::v1 as proto;
use proto::node_agent_server::NodeAgent;
use proto::probe_source_response::Result as Probed;
use proto::start_job_request::Spec;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::{convert, watch};
use crate::engine::Engine;
use crate::job::drive::chain;
use crate::job::runner::{Jobs, StartError};
use crate::job::spec::JobSpec;
use crate::job::state::Failure;
use crate::node::Node;
use crate::source::Access;

/// Longest time that a look at a source may take.
const PROBE_LIMIT: Duration = Duration::from_secs(60);
/// Looks at sources that may go on at the same time: each may take as much
/// memory as a job, for what a source is packed in.
const PROBES: usize = 4;

/// Answers the coordinator. Clones are the same agent.
#[derive(Clone)]
pub struct AgentService {
    node: Arc<Node>,
    jobs: Jobs,
    engine: Arc<dyn Engine>,
    probes: Arc<Semaphore>,
    draining: CancellationToken,
}

impl AgentService {
    /// An agent for `node` that keeps `jobs` and probes with `engine`.
    pub fn new(node: Node, jobs: Jobs, engine: Arc<dyn Engine>) -> Self {
        Self {
            node: Arc::new(node),
            jobs,
            engine,
            probes: Arc::new(Semaphore::new(PROBES)),
            draining: CancellationToken::new(),
        }
    }

    /// The same agent; its watches end when `draining` is cancelled.
    pub(super) fn until(&self, draining: CancellationToken) -> Self {
        Self {
            draining,
            ..self.clone()
        }
    }

    async fn probe(&self, request: proto::ProbeSourceRequest) -> Result<Probed, Failure> {
        let (source, access) = convert::source(request.source)?;
        let probe = async {
            let _turn = self.probes.acquire().await;
            self.engine.probe(&source, &access).await
        };
        let facts = tokio::time::timeout(PROBE_LIMIT, probe)
            .await
            .map_err(|_| Failure {
                reason: "SourceTimeout".to_owned(),
                message: format!(
                    "the source did not answer within {} s",
                    PROBE_LIMIT.as_secs()
                ),
                retryable: true,
            })??;
        Ok(Probed::Facts(convert::facts(facts)))
    }
}

#[tonic::async_trait]
impl NodeAgent for AgentService {
    async fn get_node(
        &self,
        _: Request<proto::GetNodeRequest>,
    ) -> Result<Response<proto::Node>, Status> {
        Ok(Response::new(convert::node(&self.node)))
    }

    async fn probe_source(
        &self,
        request: Request<proto::ProbeSourceRequest>,
    ) -> Result<Response<proto::ProbeSourceResponse>, Status> {
        let result = self
            .probe(request.into_inner())
            .await
            .unwrap_or_else(|failure| {
                tracing::info!(
                    reason = failure.reason,
                    message = failure.message,
                    "probe failed"
                );
                Probed::Failure(convert::failure(failure))
            });
        Ok(Response::new(proto::ProbeSourceResponse {
            result: Some(result),
        }))
    }

    async fn start_job(
        &self,
        request: Request<proto::StartJobRequest>,
    ) -> Result<Response<proto::Job>, Status> {
        let request = request.into_inner();
        let id = convert::job_id(&request.job_id)?;
        let (spec, access) = match request.spec {
            Some(Spec::Import(spec)) => {
                let (spec, access) = convert::import_spec(spec)?;
                (JobSpec::Import(spec), access)
            }
            Some(Spec::Copy(spec)) => {
                let spec = convert::copy_spec(spec)?;
                (JobSpec::Copy(spec), Access::default())
            }
            None => return Err(Status::invalid_argument("the job has no specification")),
        };
        let status = self
            .jobs
            .start(id, spec, access)
            .await
            .map_err(|error| match &error {
                StartError::Conflict(_) => Status::already_exists(error.to_string()),
                StartError::Cancelling(_) => Status::aborted(error.to_string()),
                StartError::ShuttingDown => Status::unavailable(error.to_string()),
                StartError::Journal(_) => {
                    tracing::error!(error = chain(&error), "job refused");
                    // Not "unavailable": the node's disk, not the way to it.
                    Status::failed_precondition(chain(&error))
                }
                StartError::Task(_) => Status::internal(error.to_string()),
            })?;
        Ok(Response::new(convert::job(status)))
    }

    type WatchJobsStream =
        Pin<Box<dyn Stream<Item = Result<proto::WatchJobsResponse, Status>> + Send>>;

    async fn watch_jobs(
        &self,
        _: Request<proto::WatchJobsRequest>,
    ) -> Result<Response<Self::WatchJobsStream>, Status> {
        let stream = watch::stream(self.jobs.board(), self.draining.clone());
        Ok(Response::new(Box::pin(stream)))
    }

    async fn list_jobs(
        &self,
        _: Request<proto::ListJobsRequest>,
    ) -> Result<Response<proto::ListJobsResponse>, Status> {
        let jobs = self
            .jobs
            .board()
            .list()
            .into_iter()
            .map(convert::job)
            .collect();
        Ok(Response::new(proto::ListJobsResponse { jobs }))
    }

    async fn cancel_job(
        &self,
        request: Request<proto::CancelJobRequest>,
    ) -> Result<Response<proto::CancelJobResponse>, Status> {
        let id = convert::job_id(&request.into_inner().job_id)?;
        self.jobs.cancel(id).await.map_err(|error| {
            tracing::error!(error = chain(&error), "job not forgotten");
            Status::unavailable(chain(&error))
        })?;
        Ok(Response::new(proto::CancelJobResponse {}))
    }
}
