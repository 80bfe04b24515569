//! The calls of the protocol.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use hypercloud_proto::agent::v1 as proto;
use proto::node_agent_server::NodeAgent;
use proto::presign_object_response::Result as Presigned;
use proto::probe_source_response::Result as Probed;
use proto::start_job_request::Spec;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::turns::{CALL_LIMIT, Turns};
use super::{convert, watch};
use crate::engine::Engine;
use crate::job::drive::chain;
use crate::job::runner::{Jobs, StartError};
use crate::job::spec::JobSpec;
use crate::job::state::Failure;
use crate::node::Node;
use crate::source::Access;

/// Looks at sources that may go on at the same time: each may take as much
/// memory as a job, for what a source is packed in.
const PROBES: usize = 4;
/// Other questions to object stores that may be asked at the same time.
const OBJECT_CALLS: usize = 8;

/// Answers the coordinator. Clones are the same agent.
#[derive(Clone)]
pub struct AgentService {
    node: Arc<Node>,
    jobs: Jobs,
    engine: Arc<dyn Engine>,
    probes: Turns,
    object_calls: Turns,
    draining: CancellationToken,
}

impl AgentService {
    /// An agent for `node` that keeps `jobs` and probes with `engine`.
    pub fn new(node: Node, jobs: Jobs, engine: Arc<dyn Engine>) -> Self {
        Self {
            node: Arc::new(node),
            jobs,
            engine,
            probes: Turns::new(
                PROBES,
                "as many sources as may be are being looked at: ask again",
            ),
            object_calls: Turns::new(
                OBJECT_CALLS,
                "as many object stores as may be are being asked: ask again",
            ),
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
        let probe = self.engine.probe(&source, &access);
        let facts = self.probes.call(probe).await?.unwrap_or_else(|| {
            Err(Failure {
                reason: "SourceTimeout".to_owned(),
                message: format!(
                    "the source did not answer within {} s",
                    CALL_LIMIT.as_secs()
                ),
                retryable: true,
            })
        });
        Ok(facts.map(|facts| Probed::Facts(convert::facts(facts))))
    }

    /// Asks something about an object when it is its turn.
    async fn ask_store<T>(
        &self,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Result<T, proto::Failure>, Status> {
        let answer = self.object_calls.call(call).await?.unwrap_or_else(|| {
            Err(Failure {
                reason: "StoreTimeout".to_owned(),
                message: format!(
                    "the object store did not answer within {} s: look whether the node reaches it",
                    CALL_LIMIT.as_secs()
                ),
                retryable: true,
            })
        });
        Ok(answer.map_err(|failure| {
            tracing::info!(
                reason = failure.reason,
                message = failure.message,
                "call of an object store failed"
            );
            convert::failure(failure)
        }))
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
            Some(Spec::Export(spec)) => {
                let (spec, access) = convert::export_spec(spec)?;
                (JobSpec::Export(spec), access)
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

    type WatchDevicesStream =
        Pin<Box<dyn Stream<Item = Result<proto::WatchDevicesResponse, Status>> + Send>>;

    async fn watch_devices(
        &self,
        _: Request<proto::WatchDevicesRequest>,
    ) -> Result<Response<Self::WatchDevicesStream>, Status> {
        Err(Status::unimplemented("devices are not watched yet"))
    }

    async fn clean_device(
        &self,
        _: Request<proto::CleanDeviceRequest>,
    ) -> Result<Response<proto::CleanDeviceResponse>, Status> {
        Err(Status::unimplemented("devices are not cleaned yet"))
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
        request: Request<proto::DiscardUploadRequest>,
    ) -> Result<Response<proto::DiscardUploadResponse>, Status> {
        let proto::DiscardUploadRequest { object, upload_id } = request.into_inner();
        if upload_id.is_empty() {
            return Err(Status::invalid_argument("the request names no upload"));
        }
        let (object, access) = convert::object(object)?;
        let call = self.engine.discard_upload(&object, &access, &upload_id);
        let failure = self.ask_store(call).await?.err();
        if failure.is_none() {
            tracing::info!(%object, upload = upload_id, "parts of the upload discarded");
        }
        Ok(Response::new(proto::DiscardUploadResponse { failure }))
    }

    async fn presign_object(
        &self,
        request: Request<proto::PresignObjectRequest>,
    ) -> Result<Response<proto::PresignObjectResponse>, Status> {
        let proto::PresignObjectRequest {
            object,
            expires_after_seconds,
        } = request.into_inner();
        let valid = convert::validity(expires_after_seconds)?;
        let (object, access) = convert::object(object)?;
        let call = self.engine.presign(&object, &access, valid);
        let result = match self.ask_store(call).await? {
            Ok(url) => Presigned::Url(url.reveal().to_owned()),
            Err(failure) => Presigned::Failure(failure),
        };
        Ok(Response::new(proto::PresignObjectResponse {
            result: Some(result),
        }))
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
    use std::time::Duration;

    use async_trait::async_trait;
    use tempfile::TempDir;
    use tokio::task::JoinHandle;
    use tokio::time::Instant;
    use tonic::Code;

    use super::super::turns::TURN_LIMIT;
    use super::*;
    use crate::engine::{CopyOrder, ExportOrder, Exported, ImportOrder, Imported, Observer};
    use crate::job::state::Progress;
    use crate::source::{Access, Facts, ObjectLocation, Secret, Source};
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

        async fn export(
            &self,
            _: ExportOrder,
            _: Arc<dyn Observer>,
            _: CancellationToken,
        ) -> Result<Exported, Failure> {
            Err(failure("Cancelled"))
        }

        async fn discard_upload(
            &self,
            object: &ObjectLocation,
            _: &Access,
            _: &str,
        ) -> Result<(), Failure> {
            if object.key == "slow" {
                std::future::pending::<()>().await;
            }
            Ok(())
        }

        async fn presign(
            &self,
            object: &ObjectLocation,
            _: &Access,
            valid: Duration,
        ) -> Result<Secret, Failure> {
            if object.key == "slow" {
                std::future::pending::<()>().await;
            }
            Ok(Secret::new(format!("{object}?{}", valid.as_secs())))
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

    fn stored(key: &str) -> Option<proto::StoredObject> {
        let chain = proto::stored_object::Credentials::DefaultChain(proto::DefaultChain {});
        Some(proto::StoredObject {
            bucket: "images".into(),
            key: key.into(),
            credentials: Some(chain),
            ..proto::StoredObject::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_slow_is_told_of_and_holds_nobody_up_for_good() {
        let (_place, agent) = agent();
        let presign = |key: &str| {
            let request = Request::new(proto::PresignObjectRequest {
                object: stored(key),
                expires_after_seconds: 60,
            });
            let agent = agent.clone();
            tokio::spawn(async move { agent.presign_object(request).await })
        };
        let slow: Vec<_> = (0..OBJECT_CALLS).map(|_| presign("slow")).collect();
        tokio::task::yield_now().await;
        let quick = presign("disk");
        let discard = Request::new(proto::DiscardUploadRequest {
            object: stored("slow"),
            upload_id: "u".into(),
        });
        let discard = tokio::spawn({
            let agent = agent.clone();
            async move { agent.discard_upload(discard).await }
        });
        for call in slow {
            let answer = call.await.unwrap().unwrap().into_inner();
            let Some(Presigned::Failure(failure)) = answer.result else {
                panic!("an address")
            };
            assert_eq!(
                (failure.reason.as_str(), failure.retryable),
                ("StoreTimeout", true)
            );
        }
        let answer = quick.await.unwrap().unwrap().into_inner();
        let expected = Presigned::Url("s3://images/disk?60".into());
        assert_eq!(answer.result, Some(expected));
        let failure = discard.await.unwrap().unwrap().into_inner().failure;
        assert_eq!(failure.unwrap().reason, "StoreTimeout");
    }

    #[tokio::test]
    async fn questions_that_make_no_sense_are_refused() {
        let (_place, agent) = agent();
        for (object, upload_id) in [(stored("disk"), ""), (None, "u"), (stored(""), "u")] {
            let request = proto::DiscardUploadRequest {
                object,
                upload_id: upload_id.into(),
            };
            let refused = agent.discard_upload(Request::new(request)).await;
            assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
        }
        for (object, expires_after_seconds) in [(stored("disk"), 0), (None, 60)] {
            let request = proto::PresignObjectRequest {
                object,
                expires_after_seconds,
            };
            let refused = agent.presign_object(Request::new(request)).await;
            assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
        }
    }
}
