//! An agent that does what it is told by the test.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures::{Stream, StreamExt, stream};
use hypercloud_coordinator::tls::issue::KeyedCertificate;
use hypercloud_proto::agent::v1::node_agent_server::{NodeAgent, NodeAgentServer};
use hypercloud_proto::agent::v1::watch_devices_response::Event as DeviceEvent;
use hypercloud_proto::agent::v1::watch_jobs_response::Event;
use hypercloud_proto::agent::v1::*;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio_stream::wrappers::{BroadcastStream, TcpListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Code, Request, Response, Status};

#[derive(Clone)]
pub struct Simulated {
    name: String,
    jobs: Arc<Mutex<BTreeMap<String, Job>>>,
    events: broadcast::Sender<Event>,
    refuse: Arc<Mutex<Option<Code>>>,
    asked: Arc<Mutex<(Vec<Source>, ImportSpec)>>,
    copied: Arc<Mutex<Vec<CopySpec>>>,
    exported: Arc<Mutex<Vec<ExportSpec>>>,
    discarded: Arc<Mutex<Vec<String>>>,
    devices: Arc<Mutex<BTreeMap<String, Device>>>,
    device_events: broadcast::Sender<DeviceEvent>,
    device_streams: Arc<Mutex<usize>>,
    too_old: bool,
    cleaned: Arc<Mutex<Vec<CleanDeviceRequest>>>,
    stop: CancellationToken,
}

impl Simulated {
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            jobs: Arc::default(),
            events: broadcast::channel(64).0,
            refuse: Arc::default(),
            asked: Arc::default(),
            copied: Arc::default(),
            exported: Arc::default(),
            discarded: Arc::default(),
            devices: Arc::default(),
            device_events: broadcast::channel(4096).0,
            device_streams: Arc::default(),
            too_old: false,
            cleaned: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// An agent of a version that knows nothing of devices.
    pub fn too_old(name: &str) -> Self {
        Self {
            too_old: true,
            ..Self::named(name)
        }
    }

    /// A device is from the next look on as given.
    pub fn plug(&self, device: Device) {
        let mut devices = self.devices.lock().unwrap();
        devices.insert(device.name.clone(), device.clone());
        let _ = self.device_events.send(DeviceEvent::Changed(device));
    }

    /// A device is gone from the next look on.
    pub fn unplug(&self, name: &str) {
        self.devices.lock().unwrap().remove(name);
        let _ = self.device_events.send(DeviceEvent::Removed(name.into()));
    }

    /// Looks at its devices.
    pub fn look(&self, revision: u64) {
        let devices = self.devices.lock().unwrap().len() as u64;
        let look = Look {
            revision,
            boot_id: Some("boot".into()),
            devices,
            ..Look::default()
        };
        let _ = self.device_events.send(DeviceEvent::Look(look));
    }

    /// Says something of its devices.
    pub fn say(&self, event: DeviceEvent) {
        let _ = self.device_events.send(event);
    }

    /// How many streams of devices were asked for.
    pub fn device_streams(&self) -> usize {
        *self.device_streams.lock().unwrap()
    }

    /// The devices that it was told to clean.
    pub fn cleaned(&self) -> Vec<CleanDeviceRequest> {
        self.cleaned.lock().unwrap().clone()
    }

    /// Listens on loopback, trusting clients of `authority`.
    pub async fn serve(&self, authority: &KeyedCertificate, own: &KeyedCertificate) -> SocketAddr {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(&own.certificate, &own.key))
            .client_ca_root(Certificate::from_pem(&authority.certificate));
        let server = Server::builder()
            .tls_config(tls)
            .unwrap()
            .add_service(NodeAgentServer::new(self.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let stop = self.stop.clone();
        tokio::spawn(async move { stop.run_until_cancelled(server).await });
        address
    }

    /// Dies: open streams end with it.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// A job is from now on as given.
    pub fn put(&self, job: Job) {
        self.jobs
            .lock()
            .unwrap()
            .insert(job.id.clone(), job.clone());
        let _ = self.events.send(Event::Changed(job));
    }

    /// The sources of its calls, and the last job's specification.
    pub fn asked(&self) -> (Vec<Source>, ImportSpec) {
        self.asked.lock().unwrap().clone()
    }

    /// The specifications of its copies.
    pub fn copied(&self) -> Vec<CopySpec> {
        self.copied.lock().unwrap().clone()
    }

    /// The specifications of its exports.
    pub fn exported(&self) -> Vec<ExportSpec> {
        self.exported.lock().unwrap().clone()
    }

    /// The uploads that it was told to remove.
    pub fn discarded(&self) -> Vec<String> {
        self.discarded.lock().unwrap().clone()
    }

    pub fn answer_starts_with(&self, code: Code) {
        *self.refuse.lock().unwrap() = Some(code);
    }
}

type Events = Pin<Box<dyn Stream<Item = Result<WatchJobsResponse, Status>> + Send>>;
type DeviceEvents = Pin<Box<dyn Stream<Item = Result<WatchDevicesResponse, Status>> + Send>>;

#[tonic::async_trait]
impl NodeAgent for Simulated {
    async fn get_node(&self, _: Request<GetNodeRequest>) -> Result<Response<Node>, Status> {
        Ok(Response::new(Node {
            name: self.name.clone(),
            version: "test".into(),
            boot_id: "boot".into(),
        }))
    }

    async fn probe_source(
        &self,
        request: Request<ProbeSourceRequest>,
    ) -> Result<Response<ProbeSourceResponse>, Status> {
        let source = request.into_inner().source;
        self.asked.lock().unwrap().0.extend(source);
        let facts = SourceFacts {
            format: ImageFormat::Raw.into(),
            virtual_size: Some(1024),
            ..SourceFacts::default()
        };
        let result = Some(probe_source_response::Result::Facts(facts));
        Ok(Response::new(ProbeSourceResponse { result }))
    }

    async fn start_job(&self, request: Request<StartJobRequest>) -> Result<Response<Job>, Status> {
        if let Some(code) = *self.refuse.lock().unwrap() {
            return Err(Status::new(code, "as told"));
        }
        let request = request.into_inner();
        match request.spec {
            Some(start_job_request::Spec::Import(spec)) => {
                let mut asked = self.asked.lock().unwrap();
                asked.0.extend(spec.source.clone());
                asked.1 = spec;
            }
            Some(start_job_request::Spec::Copy(spec)) => self.copied.lock().unwrap().push(spec),
            Some(start_job_request::Spec::Export(spec)) => self.exported.lock().unwrap().push(spec),
            None => return Err(Status::invalid_argument("no job")),
        }
        let id = request.job_id;
        let known = self.jobs.lock().unwrap().get(&id).cloned();
        let job = known.unwrap_or_else(|| Job {
            id,
            state: JobState::Pending.into(),
            ..Job::default()
        });
        self.jobs
            .lock()
            .unwrap()
            .insert(job.id.clone(), job.clone());
        Ok(Response::new(job))
    }

    type WatchJobsStream = Events;

    async fn watch_jobs(&self, _: Request<WatchJobsRequest>) -> Result<Response<Events>, Status> {
        let events = BroadcastStream::new(self.events.subscribe());
        let jobs: Vec<Job> = self.jobs.lock().unwrap().values().cloned().collect();
        let snapshot = jobs
            .into_iter()
            .map(Event::Changed)
            .chain([Event::Synced(Synced {})]);
        let stop = self.stop.clone();
        let stream = stream::iter(snapshot)
            .chain(events.filter_map(async |event| event.ok()))
            .map(|event| Ok(WatchJobsResponse { event: Some(event) }))
            .take_until(stop.cancelled_owned());
        Ok(Response::new(Box::pin(stream)))
    }

    type WatchDevicesStream = DeviceEvents;

    async fn watch_devices(
        &self,
        _: Request<WatchDevicesRequest>,
    ) -> Result<Response<DeviceEvents>, Status> {
        if self.too_old {
            return Err(Status::unimplemented("no such call"));
        }
        let devices = self.devices.lock().unwrap();
        *self.device_streams.lock().unwrap() += 1;
        let events = BroadcastStream::new(self.device_events.subscribe());
        let look = Look {
            revision: 1,
            boot_id: Some("boot".into()),
            devices: devices.len() as u64,
            ..Look::default()
        };
        let devices = devices.values().cloned().map(DeviceEvent::Changed);
        let snapshot: Vec<_> = devices.chain([DeviceEvent::Look(look)]).collect();
        let stop = self.stop.clone();
        let stream = stream::iter(snapshot)
            .chain(events.filter_map(async |event| event.ok()))
            .map(|event| Ok(WatchDevicesResponse { event: Some(event) }))
            .take_until(stop.cancelled_owned());
        Ok(Response::new(Box::pin(stream)))
    }

    async fn clean_device(
        &self,
        request: Request<CleanDeviceRequest>,
    ) -> Result<Response<CleanDeviceResponse>, Status> {
        let request = request.into_inner();
        let result = if request.path == "/dev/used" {
            clean_device_response::Result::Failure(Failure {
                reason: "Mounted".into(),
                message: "mounted at /data".into(),
                retryable: false,
            })
        } else {
            clean_device_response::Result::Cleaned(CleanedDevice {
                removed: vec!["ext4 at byte 1080".into()],
                discarded: true,
            })
        };
        self.cleaned.lock().unwrap().push(request);
        let result = Some(result);
        Ok(Response::new(CleanDeviceResponse { result }))
    }

    async fn list_jobs(
        &self,
        _: Request<ListJobsRequest>,
    ) -> Result<Response<ListJobsResponse>, Status> {
        let jobs = self.jobs.lock().unwrap().values().cloned().collect();
        Ok(Response::new(ListJobsResponse { jobs }))
    }

    async fn discard_upload(
        &self,
        request: Request<DiscardUploadRequest>,
    ) -> Result<Response<DiscardUploadResponse>, Status> {
        let upload = request.into_inner().upload_id;
        self.discarded.lock().unwrap().push(upload);
        Ok(Response::new(DiscardUploadResponse::default()))
    }

    async fn presign_object(
        &self,
        request: Request<PresignObjectRequest>,
    ) -> Result<Response<PresignObjectResponse>, Status> {
        let object = request.into_inner().object.unwrap_or_default();
        let url = format!("http://store/{}/{}?signed", object.bucket, object.key);
        let result = Some(presign_object_response::Result::Url(url));
        Ok(Response::new(PresignObjectResponse { result }))
    }

    async fn cancel_job(
        &self,
        request: Request<CancelJobRequest>,
    ) -> Result<Response<CancelJobResponse>, Status> {
        let id = request.into_inner().job_id;
        if self.jobs.lock().unwrap().remove(&id).is_some() {
            let _ = self.events.send(Event::Removed(id));
        }
        Ok(Response::new(CancelJobResponse {}))
    }
}
