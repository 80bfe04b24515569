//! The agents over gRPC: one link per agent, kept up as long as its pod is
//! there.
//!
//! Each link connects over mutual TLS, asks the agent who it is, follows its
//! job stream into the [`Table`] and, beside it, its devices into the
//! [`DeviceTable`], and starts over with a growing delay when
//! anything of that fails. Keep-alive pings notice a dead agent within
//! [`KEEP_ALIVE`] twice over. Calls go over the same connection and each has
//! a deadline.

mod follow;
mod link;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use hypercloud_proto::agent::v1 as proto;
use hypercloud_proto::agent::v1::node_agent_client::NodeAgentClient;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::devices::table::DeviceTable;
use super::devices::{Cleaned, CleaningOrder, DevicesSeen};
use super::source::{SignedAddress, Source, Stored};
use super::table::{Change, Table};
use super::wire::{self, Missing};
use super::{
    AgentError, AgentState, Agents, CopyJob, ExportJob, Failure, ImportJob, Job, JobSeen, Probed,
};

/// Where each node's agent listens.
pub type Endpoints = BTreeMap<String, SocketAddr>;

/// Name that every agent's certificate speaks for.
pub const AGENT_NAME: &str = "node-agent.hypercloud-storage";

/// Interval of the keep-alive pings, and how long an answer may take.
pub const KEEP_ALIVE: Duration = Duration::from_secs(8);
/// Deadline of calls that only look something up.
const QUICK: Duration = Duration::from_secs(10);
/// Deadline of a probe: the source may be slow, for a minute, and so may those
/// before it, for whose turns an agent lets it wait a minute and a half.
const PROBE: Duration = Duration::from_secs(160);
/// Probes that are on their way at the same time.
const PROBES: usize = 32;
/// Deadline of what is asked of an object store by the way.
const STORE: Duration = Duration::from_secs(30);
/// Deadline of a cancellation: the volume is to be closed in it.
const CANCEL: Duration = Duration::from_secs(30);

/// Deadline of a cleaning, after which the same order is given again and joins
/// it: a slow device discards its blocks for hours, and others wait for the
/// turn.
const CLEAN: Duration = Duration::from_secs(60);

/// What the coordinator shows the agents, and what it accepts of them; PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientTls {
    /// Certificates of the authorities that agents' certificates are of.
    pub authorities: String,
    /// The coordinator's certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

/// The links to the agents.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

/// A link that is kept up.
struct Link {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// What the links and the callers share.
struct Shared {
    table: Mutex<Table>,
    devices: Mutex<DeviceTable>,
    channels: Mutex<BTreeMap<String, Channel>>,
    listeners: Mutex<Vec<mpsc::UnboundedSender<Change>>>,
    tls: watch::Receiver<ClientTls>,
    probes: Semaphore,
}

impl Pool {
    /// A pool without links; [`Pool::run`] makes them.
    pub fn new(tls: watch::Receiver<ClientTls>) -> Self {
        let shared = Arc::new(Shared {
            table: Mutex::new(Table::new(Timestamp::now())),
            devices: Mutex::new(DeviceTable::new(Timestamp::now())),
            channels: Mutex::default(),
            listeners: Mutex::default(),
            tls,
            probes: Semaphore::new(PROBES),
        });
        Self { shared }
    }

    /// Every change from now on that someone has to look at. Each controller
    /// listens for itself: what is nothing to it, it passes over.
    pub fn changes(&self) -> mpsc::UnboundedReceiver<Change> {
        let (sender, receiver) = mpsc::unbounded_channel();
        lock(&self.shared.listeners).push(sender);
        receiver
    }

    /// Keeps one link per endpoint until `stop`.
    pub async fn run(&self, mut endpoints: watch::Receiver<Endpoints>, stop: CancellationToken) {
        let mut links: BTreeMap<String, Link> = BTreeMap::new();
        loop {
            let wanted = endpoints.borrow_and_update().clone();
            self.shared
                .change_devices(|devices| devices.expected(wanted.keys(), Timestamp::now()));
            for (node, link) in &links {
                if wanted.get(node) != Some(&link.address) {
                    link.stop.cancel();
                }
            }
            for (node, address) in wanted {
                let former = match links.remove(&node) {
                    Some(link) if link.address == address && !link.task.is_finished() => {
                        links.insert(node, link);
                        continue;
                    }
                    former => former,
                };
                let token = stop.child_token();
                let keep = link::keep(
                    Arc::clone(&self.shared),
                    node.clone(),
                    address,
                    token.clone(),
                );
                let task = tokio::spawn(async move {
                    // Two links of one node would speak over each other.
                    if let Some(former) = former {
                        let _ = former.task.await;
                    }
                    keep.await;
                });
                let stop = token;
                links.insert(
                    node,
                    Link {
                        address,
                        stop,
                        task,
                    },
                );
            }
            tokio::select! {
                () = stop.cancelled() => break,
                changed = endpoints.changed() => if changed.is_err() { break },
            }
        }
        stop.cancelled().await;
        for (_, link) in links {
            let _ = link.task.await;
        }
    }

    async fn start_job(
        &self,
        node: &str,
        request: proto::StartJobRequest,
    ) -> Result<Job, AgentError> {
        let mut client = self.client(node)?;
        let call = Call::new(node, "StartJob", QUICK);
        let answer = call.make(
            request,
            |request| async move { client.start_job(request).await },
        );
        let job = call.complete(wire::job(answer.await?))?;
        lock(&self.shared.table).started(node, &job, Instant::now());
        Ok(job)
    }

    fn client(&self, node: &str) -> Result<NodeAgentClient<Channel>, AgentError> {
        let channels = lock(&self.shared.channels);
        match channels.get(node) {
            Some(channel) => Ok(NodeAgentClient::new(channel.clone())),
            None => Err(AgentError::Away {
                node: node.to_owned(),
            }),
        }
    }
}

impl Shared {
    /// Changes the table and tells of what follows.
    fn change<C: IntoIterator<Item = Change>>(&self, change: impl FnOnce(&mut Table) -> C) {
        let told = change(&mut lock(&self.table));
        self.tell(told);
    }

    /// Changes what is known of devices and tells of what follows.
    fn change_devices<C: IntoIterator<Item = Change>>(
        &self,
        change: impl FnOnce(&mut DeviceTable) -> C,
    ) {
        let told = change(&mut lock(&self.devices));
        self.tell(told);
    }

    fn tell(&self, told: impl IntoIterator<Item = Change>) {
        let mut listeners = lock(&self.listeners);
        for told in told {
            listeners.retain(|listener| listener.send(told.clone()).is_ok());
        }
    }
}

#[async_trait]
impl Agents for Pool {
    fn synced(&self) -> Vec<String> {
        lock(&self.shared.table).synced()
    }

    fn state(&self, node: &str) -> AgentState {
        lock(&self.shared.table).state(node)
    }

    fn jobs(&self) -> Vec<JobSeen> {
        lock(&self.shared.table).jobs()
    }

    fn jobs_of(&self, uid: &str) -> Vec<JobSeen> {
        lock(&self.shared.table).jobs_of(uid)
    }

    async fn probe(&self, node: &str, source: &Source) -> Result<Probed, AgentError> {
        const NAME: &str = "ProbeSource";
        let mut client = self.client(node)?;
        // Whoever would wait here would keep a reconcile waiting.
        let Ok(_turn) = self.shared.probes.try_acquire() else {
            return Err(AgentError::Busy { call: NAME });
        };
        let request = proto::ProbeSourceRequest {
            source: Some(wire::source(source)),
        };
        let call = Call::new(node, NAME, PROBE);
        let answer = call.make(request, |request| async move {
            client.probe_source(request).await
        });
        call.complete(wire::probed(answer.await?))
    }

    async fn start(&self, node: &str, job: &ImportJob, source: &Source) -> Result<Job, AgentError> {
        self.start_job(node, wire::start_request(job, source)).await
    }

    async fn copy(&self, node: &str, job: &CopyJob) -> Result<Job, AgentError> {
        self.start_job(node, wire::copy_request(job)).await
    }

    async fn export(
        &self,
        node: &str,
        job: &ExportJob,
        object: &Stored,
    ) -> Result<Job, AgentError> {
        self.start_job(node, wire::export_request(job, object))
            .await
    }

    async fn discard(
        &self,
        node: &str,
        object: &Stored,
        upload_id: &str,
    ) -> Result<Result<(), Failure>, AgentError> {
        let mut client = self.client(node)?;
        let request = proto::DiscardUploadRequest {
            object: Some(wire::stored(object)),
            upload_id: upload_id.to_owned(),
        };
        let call = Call::new(node, "DiscardUpload", STORE);
        let answer = call.make(request, |request| async move {
            client.discard_upload(request).await
        });
        Ok(wire::discarded(answer.await?))
    }

    async fn presign(
        &self,
        node: &str,
        object: &Stored,
        valid: Duration,
    ) -> Result<Result<SignedAddress, Failure>, AgentError> {
        let mut client = self.client(node)?;
        let request = proto::PresignObjectRequest {
            object: Some(wire::stored(object)),
            expires_after_seconds: valid.as_secs(),
        };
        let call = Call::new(node, "PresignObject", STORE);
        let answer = call.make(request, |request| async move {
            client.presign_object(request).await
        });
        call.complete(wire::presigned(answer.await?))
    }

    async fn cancel(&self, node: &str, job_id: &str) -> Result<(), AgentError> {
        let mut client = self.client(node)?;
        let request = proto::CancelJobRequest {
            job_id: job_id.to_owned(),
        };
        let call = Call::new(node, "CancelJob", CANCEL);
        let answer = call.make(request, |request| async move {
            client.cancel_job(request).await
        });
        answer.await?;
        // The stream will say so as well; who cancelled need not wait for it.
        lock(&self.shared.table).removed(node, job_id);
        Ok(())
    }

    fn devices(&self, node: &str) -> DevicesSeen {
        lock(&self.shared.devices).seen(node)
    }

    async fn clean(
        &self,
        node: &str,
        order: &CleaningOrder,
    ) -> Result<Result<Cleaned, Failure>, AgentError> {
        let mut client = self.client(node)?;
        let call = Call::new(node, "CleanDevice", CLEAN);
        let request = wire::devices::clean_request(order);
        let answer = call.make(request, |request| async move {
            client.clean_device(request).await
        });
        call.complete(wire::devices::cleaned(answer.await?))
    }
}

/// One call to one agent.
#[derive(Clone, Copy)]
struct Call<'a> {
    node: &'a str,
    name: &'static str,
    deadline: Duration,
}

impl<'a> Call<'a> {
    fn new(node: &'a str, name: &'static str, deadline: Duration) -> Self {
        Self {
            node,
            name,
            deadline,
        }
    }

    /// Makes the call within its deadline, which the agent is told of.
    async fn make<Q, A, F>(
        self,
        message: Q,
        call: impl FnOnce(Request<Q>) -> F,
    ) -> Result<A, AgentError>
    where
        F: Future<Output = Result<tonic::Response<A>, Status>>,
    {
        let mut request = Request::new(message);
        request.set_timeout(self.deadline);
        let late = || Status::deadline_exceeded(format!("no answer within {:?}", self.deadline));
        let begun = Instant::now();
        let answer = tokio::time::timeout(self.deadline, call(request)).await;
        match answer.unwrap_or_else(|_| Err(late())) {
            Ok(response) => Ok(response.into_inner()),
            Err(status) => Err(self.failed(&status, begun.elapsed())),
        }
    }

    fn failed(self, status: &Status, elapsed: Duration) -> AgentError {
        let node = self.node.to_owned();
        let call = self.name;
        let message = status.message().to_owned();
        match status.code() {
            Code::InvalidArgument
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::PermissionDenied
            | Code::Unimplemented => AgentError::Refused {
                node,
                call,
                message,
            },
            // The agent has its hands full, which is not the source's doing.
            Code::ResourceExhausted => AgentError::Busy { call },
            Code::DeadlineExceeded => AgentError::Late { node, call },
            // Either side's timer may notice first, and says it like this. An
            // agent that shuts down does too, but earlier.
            Code::Cancelled if elapsed >= self.deadline => AgentError::Late { node, call },
            code => AgentError::Call {
                node,
                call,
                code: format!("{code:?}"),
                message,
            },
        }
    }

    fn complete<T>(self, answer: Result<T, Missing>) -> Result<T, AgentError> {
        answer.map_err(|Missing(missing)| AgentError::Incomplete {
            node: self.node.to_owned(),
            call: self.name,
            missing,
        })
    }
}

/// Locks what a panic elsewhere may have left: every change to it is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_a_shutdown_cancels_is_not_late() {
        let call = Call::new("n1", "ProbeSource", PROBE);
        let cancelled = Status::cancelled("h2 stream reset");
        let failed = |elapsed| call.failed(&cancelled, elapsed).reason();
        assert_eq!(failed(PROBE / 2), "AgentCallFailed");
        assert_eq!(failed(PROBE), "AgentLate");
    }

    #[test]
    fn an_agent_that_has_its_hands_full_is_asked_again() {
        let call = Call::new("n1", "ProbeSource", PROBE);
        let error = call.failed(&Status::resource_exhausted("later"), Duration::ZERO);
        assert!(matches!(error, AgentError::Busy { .. }), "{error}");
        assert!(error.is_retryable() && !error.is_answer());
    }

    #[test]
    fn a_node_that_cannot_keep_a_journal_refuses() {
        let call = Call::new("n1", "StartJob", QUICK);
        let unwritten = Status::failed_precondition("cannot write the journal");
        let error = call.failed(&unwritten, Duration::ZERO);
        assert!(matches!(error, AgentError::Refused { .. }), "{error}");
    }
}
