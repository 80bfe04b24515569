//! The server over real TLS, as the coordinator and as everybody else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hypercloud_inventory::{Policy, Tree};
use hypercloud_proto::agent::v1 as proto;
use node_agent::devices::Devices;
use node_agent::engine::{
    CopyOrder, Engine, ExportOrder, Exported, ImportOrder, Imported, Observer,
};
use node_agent::job::runner::Jobs;
use node_agent::job::state::{Failure, Progress};
use node_agent::node::Node;
use node_agent::server::{AgentService, Serving, serve};
use node_agent::source::{Access, Facts, ObjectLocation, Secret, Source};
use node_agent::tls::{COORDINATOR, IdentityFiles, NODE_AGENT};
use node_agent::volume::KubeletVolumes;
use proto::node_agent_client::NodeAgentClient;
use proto::watch_jobs_response::Event;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Streaming};

use crate::certificates::Authority;
use crate::{DEADLINE, eventually};

/// Knows no source, and never gets to move anything.
struct Barren;

async fn idle<T>(stop: CancellationToken) -> Result<T, Failure> {
    stop.cancelled().await;
    Err(Failure {
        reason: "Cancelled".into(),
        message: String::new(),
        retryable: false,
    })
}

#[async_trait]
impl Engine for Barren {
    async fn probe(&self, _: &Source, _: &Access) -> Result<Facts, Failure> {
        Err(Failure {
            reason: "NotFound".into(),
            message: "404".into(),
            retryable: false,
        })
    }

    async fn import(
        &self,
        _: ImportOrder,
        _: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Imported, Failure> {
        idle(stop).await
    }

    async fn copy(
        &self,
        _: CopyOrder,
        _: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Progress, Failure> {
        idle(stop).await
    }

    async fn export(
        &self,
        _: ExportOrder,
        _: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Exported, Failure> {
        idle(stop).await
    }

    async fn discard_upload(&self, _: &ObjectLocation, _: &Access, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    async fn presign(
        &self,
        object: &ObjectLocation,
        _: &Access,
        _: Duration,
    ) -> Result<Secret, Failure> {
        Ok(Secret::new(object.to_string()))
    }
}

pub struct Agent {
    place: TempDir,
    port: u16,
    jobs: Jobs,
    stop: CancellationToken,
    ready: watch::Receiver<bool>,
    server: tokio::task::JoinHandle<()>,
}

impl Agent {
    async fn start(authority: &Authority, patience: Duration) -> Self {
        let nothing = tempfile::tempdir().unwrap();
        Self::with(authority, patience, Tree::recorded(nothing.path())).await
    }

    /// An agent of the node whose files are in `tree`.
    pub async fn with(authority: &Authority, patience: Duration, tree: Tree) -> Self {
        let place = tempfile::tempdir().unwrap();
        let tls = place.path().join("tls");
        std::fs::create_dir(&tls).unwrap();
        authority.equip_agent(&tls);
        let volumes = Arc::new(KubeletVolumes::new(place.path().join("kubelet"), patience));
        let (jobs, _) =
            Jobs::open(&place.path().join("jobs"), Arc::new(Barren), volumes, 2).unwrap();
        let node = Node::this("node-1".into()).unwrap();
        let devices = Devices::start(tree, Policy::default(), place.path()).unwrap();
        let service = AgentService::new(node, jobs.clone(), Arc::new(Barren), devices);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = CancellationToken::new();
        let (ready, is_ready) = watch::channel(false);
        let look_every = Duration::from_millis(50);
        let serving = Serving {
            identity: IdentityFiles::new(tls),
            look_every,
            ready,
        };
        let server = tokio::spawn(serve(listener, service, serving, stop.clone()));
        Self {
            place,
            port,
            jobs,
            stop,
            ready: is_ready,
            server,
        }
    }

    pub async fn is_ready(&mut self) {
        self.ready.wait_for(|ready| *ready).await.unwrap();
    }

    pub fn client(&self, authority: &Authority) -> NodeAgentClient<Channel> {
        NodeAgentClient::new(authority.coordinator(self.port))
    }
}

async fn answers(channel: Channel) -> Result<String, Code> {
    let mut client = NodeAgentClient::new(channel);
    let answer = client.get_node(proto::GetNodeRequest {}).await;
    answer
        .map(|node| node.into_inner().name)
        .map_err(|status| status.code())
}

fn request(id: &str, url: &str) -> proto::StartJobRequest {
    let kind = proto::source::Kind::Http(proto::HttpSource {
        url: url.into(),
        ..proto::HttpSource::default()
    });
    let import = proto::ImportSpec {
        source: Some(proto::Source { kind: Some(kind) }),
        volume: Some(proto::PodVolume {
            pod_uid: "pod-1".into(),
            volume_name: format!("pvc-{id}"),
            mode: proto::VolumeMode::Block.into(),
        }),
        ..proto::ImportSpec::default()
    };
    proto::StartJobRequest {
        job_id: id.into(),
        spec: Some(proto::start_job_request::Spec::Import(import)),
    }
}

async fn next(stream: &mut Streaming<proto::WatchJobsResponse>) -> Option<Event> {
    let message = tokio::time::timeout(DEADLINE, stream.message())
        .await
        .unwrap();
    message.ok().flatten().map(|m| m.event.unwrap())
}

#[tokio::test]
async fn only_the_coordinator_is_answered() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let agent = Agent::start(&authority, DEADLINE).await;
    let port = agent.port;
    assert_eq!(
        answers(authority.coordinator(port)).await,
        Ok("node-1".into())
    );

    let refused = [
        ("another agent", authority.client(port, NODE_AGENT)),
        (
            "a name below the coordinator's",
            authority.client(port, &format!("x.{COORDINATOR}")),
        ),
        ("nobody", authority.client_with(port, None)),
        (
            "another CA's",
            authority.client_with(port, Some(stranger.sign(COORDINATOR))),
        ),
    ];
    for (who, channel) in refused {
        assert!(answers(channel).await.is_err(), "{who} was answered");
    }
    assert!(
        answers(stranger.coordinator(port)).await.is_err(),
        "the agent is not trusted"
    );
    assert_eq!(
        answers(authority.coordinator(port)).await,
        Ok("node-1".into())
    );
}

#[tokio::test]
async fn a_client_that_says_nothing_holds_up_nobody() {
    let authority = Authority::new();
    let agent = Agent::start(&authority, DEADLINE).await;
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(
            tokio::net::TcpStream::connect(("127.0.0.1", agent.port))
                .await
                .unwrap(),
        );
    }
    let answer = tokio::time::timeout(DEADLINE, answers(authority.coordinator(agent.port)));
    assert_eq!(answer.await.unwrap(), Ok("node-1".into()));
}

#[tokio::test]
async fn new_certificates_take_over_and_old_ones_are_gone() {
    let (old, new) = (Authority::new(), Authority::new());
    let agent = Agent::start(&old, DEADLINE).await;
    let tls = agent.place.path().join("tls");
    let mut client = agent.client(&old);
    client
        .start_job(request("a", "http://images.test/a"))
        .await
        .unwrap();
    let mut watching = client
        .watch_jobs(proto::WatchJobsRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(matches!(next(&mut watching).await, Some(Event::Changed(_))));

    std::fs::write(tls.join("tls.key"), "half an update").unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(
        answers(old.coordinator(agent.port)).await,
        Ok("node-1".into())
    );

    new.equip_agent(&tls);
    eventually("the new CA's client is answered", async || {
        answers(new.coordinator(agent.port)).await.ok()
    })
    .await;
    assert!(
        answers(old.coordinator(agent.port)).await.is_err(),
        "the old CA is gone"
    );
    while next(&mut watching).await.is_some() {}
    assert!(
        client.get_node(proto::GetNodeRequest {}).await.is_err(),
        "its connections, too"
    );

    let jobs = agent
        .client(&new)
        .list_jobs(proto::ListJobsRequest {})
        .await
        .unwrap();
    assert_eq!(jobs.into_inner().jobs[0].id, "a");
}

#[tokio::test]
async fn certificates_may_come_late() {
    let authority = Authority::new();
    let mut agent = Agent::start(&authority, DEADLINE).await;
    agent.ready.wait_for(|ready| *ready).await.unwrap();
    let place = tempfile::tempdir().unwrap();
    let service = AgentService::new(
        Node::this("node-2".into()).unwrap(),
        agent.jobs.clone(),
        Arc::new(Barren),
        Devices::start(
            Tree::recorded(place.path()),
            Policy::default(),
            place.path(),
        )
        .unwrap(),
    );
    let (ready, mut is_ready) = watch::channel(false);
    let look_every = Duration::from_millis(20);
    let serving = Serving {
        identity: IdentityFiles::new(place.path()),
        look_every,
        ready,
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(serve(listener, service, serving, agent.stop.clone()));
    assert!(!*is_ready.borrow());
    authority.equip_agent(place.path());
    tokio::time::timeout(DEADLINE, is_ready.wait_for(|r| *r))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        answers(authority.coordinator(port)).await,
        Ok("node-2".into())
    );
    agent.stop.cancel();
    tokio::time::timeout(DEADLINE, server)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn starting_tells_good_requests_from_bad_ones() {
    let authority = Authority::new();
    let agent = Agent::start(&authority, DEADLINE).await;
    let mut client = agent.client(&authority);
    let job = client
        .start_job(request("a", "http://images.test/a"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (job.id.as_str(), job.state()),
        ("a", proto::JobState::Pending)
    );
    client
        .start_job(request("a", "http://images.test/a"))
        .await
        .unwrap();
    let mut code = async |request| client.start_job(request).await.unwrap_err().code();
    assert_eq!(
        code(request("a", "http://images.test/b")).await,
        Code::AlreadyExists
    );
    assert_eq!(
        code(request("../a", "http://images.test/a")).await,
        Code::InvalidArgument
    );
    assert_eq!(
        code(request("b", "http://u:secret@h/")).await,
        Code::InvalidArgument
    );
    let empty = proto::StartJobRequest {
        job_id: "c".into(),
        spec: None,
    };
    assert_eq!(code(empty).await, Code::InvalidArgument);
}

#[tokio::test]
async fn a_probe_that_fails_is_an_answer() {
    let authority = Authority::new();
    let agent = Agent::start(&authority, DEADLINE).await;
    let mut client = agent.client(&authority);
    for (url, reason) in [
        ("http://images.test/", "NotFound"),
        ("ftp://h/", "InvalidSource"),
    ] {
        let kind = proto::source::Kind::Http(proto::HttpSource {
            url: url.into(),
            ..proto::HttpSource::default()
        });
        let source = Some(proto::Source { kind: Some(kind) });
        let answer = client
            .probe_source(proto::ProbeSourceRequest { source })
            .await
            .unwrap();
        match answer.into_inner().result.unwrap() {
            proto::probe_source_response::Result::Failure(f) => assert_eq!(f.reason, reason),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_watch_is_a_snapshot_a_marker_and_changes() {
    let authority = Authority::new();
    let agent = Agent::start(&authority, Duration::ZERO).await;
    let mut client = agent.client(&authority);
    client
        .start_job(request("a", "http://images.test/a"))
        .await
        .unwrap();
    let mut stream = client
        .watch_jobs(proto::WatchJobsRequest {})
        .await
        .unwrap()
        .into_inner();
    let Some(Event::Changed(first)) = next(&mut stream).await else {
        panic!()
    };
    assert_eq!(first.id, "a");
    assert_eq!(
        next(&mut stream).await,
        Some(Event::Synced(proto::Synced {}))
    );

    client
        .start_job(request("b", "http://images.test/b"))
        .await
        .unwrap();
    let failed = loop {
        match next(&mut stream).await {
            Some(Event::Changed(job)) if job.id == "b" && job.failure.is_some() => break job,
            Some(Event::Changed(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(failed.state(), proto::JobState::Failed);
    let failure = failed.failure.unwrap();
    assert_eq!(
        (failure.reason.as_str(), failure.retryable),
        ("VolumeNotFound", true)
    );

    for _ in 0..2 {
        let cancel = proto::CancelJobRequest { job_id: "b".into() };
        client.cancel_job(cancel).await.unwrap();
    }
    loop {
        match next(&mut stream).await {
            Some(Event::Removed(id)) if id == "b" => break,
            Some(Event::Changed(job)) if job.id == "a" => {}
            other => panic!("{other:?}"),
        }
    }
    agent.stop.cancel();
    // The agent's end ends the watch, after what was on its way.
    loop {
        match next(&mut stream).await {
            None => break,
            Some(Event::Changed(job)) if job.id == "a" => {}
            other => panic!("{other:?}"),
        }
    }
    tokio::time::timeout(DEADLINE, agent.server)
        .await
        .unwrap()
        .unwrap();
    tokio::time::timeout(DEADLINE, agent.jobs.stop())
        .await
        .unwrap();
}
