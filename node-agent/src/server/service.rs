//! The calls of the protocol.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use hypercloud_proto::agent::v1 as proto;
use proto::clean_device_response::Result as CleaningResult;
use proto::node_agent_server::NodeAgent;
use proto::presign_object_response::Result as Presigned;
use proto::probe_source_response::Result as Probed;
use proto::start_job_request::Spec;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::turns::{CALL_LIMIT, Turns};
use super::{convert, devices, watch};
use crate::devices::Devices;
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
    devices: Devices,
    probes: Turns,
    object_calls: Turns,
    draining: CancellationToken,
}

impl AgentService {
    /// An agent for `node` that keeps `jobs`, probes with `engine` and tells
    /// of `devices`.
    pub fn new(node: Node, jobs: Jobs, engine: Arc<dyn Engine>, devices: Devices) -> Self {
        Self {
            node: Arc::new(node),
            jobs,
            engine,
            devices,
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
        let stream = devices::stream(&self.devices.board, self.draining.clone());
        Ok(Response::new(Box::pin(stream)))
    }

    async fn clean_device(
        &self,
        request: Request<proto::CleanDeviceRequest>,
    ) -> Result<Response<proto::CleanDeviceResponse>, Status> {
        let (meant, reference) = convert::meant(request.into_inner())?;
        let result = match self.devices.cleaner.clean(meant, reference).await {
            Ok(cleaned) => CleaningResult::Cleaned(convert::cleaned(cleaned)),
            Err(failure) => CleaningResult::Failure(convert::failure(failure)),
        };
        Ok(Response::new(proto::CleanDeviceResponse {
            result: Some(result),
        }))
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
mod tests;
