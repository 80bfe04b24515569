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

/// Longest time that a look at a source may take, once it has its turn.
const PROBE_LIMIT: Duration = Duration::from_secs(60);
/// Longest time that a look waits for its turn: more than a look may take, so
/// that one round of sources that do not answer turns nobody away. Whoever is
/// turned away comes again, and it counts as nothing against his source.
const TURN_LIMIT: Duration = Duration::from_secs(90);
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

    /// Looks at a source; waits for its turn first.
    async fn probe(
        &self,
        request: proto::ProbeSourceRequest,
    ) -> Result<Result<Probed, Failure>, Status> {
        let (source, access) = match convert::source(request.source) {
            Ok(asked) => asked,
            Err(failure) => return Ok(Err(failure.into())),
        };
        let turn = tokio::time::timeout(TURN_LIMIT, self.probes.acquire()).await;
        let _turn = turn.map_err(|_| {
            Status::resource_exhausted("as many sources as may be are being looked at: ask again")
        })?;
        let probe = self.engine.probe(&source, &access);
        let facts = tokio::time::timeout(PROBE_LIMIT, probe).await;
        let facts = facts.unwrap_or_else(|_| {
            Err(Failure {
                reason: "SourceTimeout".to_owned(),
                message: format!(
                    "the source did not answer within {} s",
                    PROBE_LIMIT.as_secs()
                ),
                retryable: true,
            })
        });
        Ok(facts.map(|facts| Probed::Facts(convert::facts(facts))))
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
            .await?
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
            Some(Spec::Export(_)) => {
                return Err(Status::unimplemented("this agent exports nothing"));
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

    async fn discard_upload(
        &self,
        _: Request<proto::DiscardUploadRequest>,
    ) -> Result<Response<proto::DiscardUploadResponse>, Status> {
        Err(Status::unimplemented("this agent exports nothing"))
    }

    async fn presign_object(
        &self,
        _: Request<proto::PresignObjectRequest>,
    ) -> Result<Response<proto::PresignObjectResponse>, Status> {
        Err(Status::unimplemented("this agent exports nothing"))
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

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tempfile::TempDir;
    use tokio::task::JoinHandle;
    use tokio::time::Instant;
    use tonic::Code;

    use super::*;
    use crate::engine::{CopyOrder, ImportOrder, Imported, Observer};
    use crate::job::state::Progress;
    use crate::source::{Access, Facts, Source};
    use crate::volume::KubeletVolumes;

    /// Gives no answer for addresses that end in `slow`, and another at once.
    struct Sources;

    #[async_trait]
    impl Engine for Sources {
        async fn probe(&self, source: &Source, _: &Access) -> Result<Facts, Failure> {
            if format!("{source:?}").contains("slow") {
                std::future::pending::<()>().await;
            }
            Err(failure("NotFound"))
        }

        async fn import(
            &self,
            _: ImportOrder,
            _: Arc<dyn Observer>,
            _: CancellationToken,
        ) -> Result<Imported, Failure> {
            Err(failure("Cancelled"))
        }

        async fn copy(
            &self,
            _: CopyOrder,
            _: Arc<dyn Observer>,
            _: CancellationToken,
        ) -> Result<Progress, Failure> {
            Err(failure("Cancelled"))
        }
    }

    fn failure(reason: &str) -> Failure {
        Failure {
            reason: reason.into(),
            message: String::new(),
            retryable: false,
        }
    }

    fn agent() -> (TempDir, AgentService) {
        let place = tempfile::tempdir().unwrap();
        let volumes = Arc::new(KubeletVolumes::new(place.path(), Duration::ZERO));
        let engine: Arc<dyn Engine> = Arc::new(Sources);
        let (jobs, _) = Jobs::open(&place.path().join("jobs"), engine.clone(), volumes, 1).unwrap();
        let node = Node::this("node-1".into()).unwrap();
        (place, AgentService::new(node, jobs, engine))
    }

    /// What a look ends with, and when.
    type Look = JoinHandle<(Result<String, Code>, Duration)>;

    /// Looks at a source.
    fn look(agent: &AgentService, path: &str) -> Look {
        let kind = proto::source::Kind::Http(proto::HttpSource {
            url: format!("http://images.test/{path}"),
            ..proto::HttpSource::default()
        });
        let source = Some(proto::Source { kind: Some(kind) });
        let (agent, begun) = (agent.clone(), Instant::now());
        tokio::spawn(async move {
            let answer = agent.probe(proto::ProbeSourceRequest { source }).await;
            let told = answer
                .map(|probed| probed.unwrap_err().reason)
                .map_err(|status| status.code());
            (told, begun.elapsed())
        })
    }

    #[tokio::test(start_paused = true)]
    async fn slow_sources_cost_those_behind_them_their_time_and_no_more() {
        let (_place, agent) = agent();
        let slow: Vec<_> = (0..PROBES).map(|_| look(&agent, "slow")).collect();
        tokio::task::yield_now().await;
        let quick = look(&agent, "quick");
        // Its limit begins with its turn, so it is no source that is late.
        let later = look(&agent, "slow");
        for look in slow {
            let (told, after) = look.await.unwrap();
            assert_eq!(
                (told.unwrap().as_str(), after.as_secs()),
                ("SourceTimeout", 60)
            );
        }
        let (told, after) = quick.await.unwrap();
        assert_eq!((told.unwrap().as_str(), after.as_secs()), ("NotFound", 60));
        let (told, after) = later.await.unwrap();
        assert_eq!(
            (told.unwrap().as_str(), after.as_secs()),
            ("SourceTimeout", 120)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_asked_to_come_again() {
        let (_place, agent) = agent();
        let slow: Vec<_> = (0..2 * PROBES).map(|_| look(&agent, "slow")).collect();
        tokio::task::yield_now().await;
        let (told, after) = look(&agent, "quick").await.unwrap();
        assert_eq!((told, after), (Err(Code::ResourceExhausted), TURN_LIMIT));
        drop(slow);
    }
}
