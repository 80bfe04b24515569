//! The agent pool against a simulated agent: a real gRPC server over mutual
//! TLS, with certificates as the coordinator issues them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod devices;
mod export;
mod simulated;

use std::collections::BTreeMap;
use std::time::Duration;

use hypercloud_coordinator::agents::pool::{AGENT_NAME, ClientTls, Endpoints, Pool};
use hypercloud_coordinator::agents::source::{
    Basic, ObjectPlace, Place, Signing, Source, SourceUrl,
};
use hypercloud_coordinator::agents::table::Change;
use hypercloud_coordinator::agents::{
    AgentError, AgentState, Agents, CopyJob, Facts, ImageFormat, ImportJob, JobState, JobVolume,
    VolumeKind,
};
use hypercloud_coordinator::tls::issue::{self, KeyedCertificate, Purpose};
use hypercloud_proto::agent::v1 as proto;
use k8s_openapi::jiff::Timestamp;
use simulated::Simulated;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

const DEADLINE: Duration = Duration::from_secs(20);

struct Certificates {
    authority: KeyedCertificate,
    server: KeyedCertificate,
    client: ClientTls,
}

fn certificates() -> Certificates {
    let now = Timestamp::now();
    let authority = issue::authority(now).unwrap();
    let server = issue::leaf(&authority, Purpose::Server(AGENT_NAME), now).unwrap();
    let client = issue::leaf(&authority, Purpose::Client("coordinator.test"), now).unwrap();
    let client = ClientTls {
        authorities: authority.certificate.clone(),
        certificate: client.certificate,
        key: client.key,
    };
    Certificates {
        authority,
        server,
        client,
    }
}

struct Links {
    pool: Pool,
    changes: mpsc::UnboundedReceiver<Change>,
    endpoints: watch::Sender<Endpoints>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    _tls: watch::Sender<ClientTls>,
}

impl Links {
    fn to(endpoints: Endpoints, tls: ClientTls) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (sender, receiver) = watch::channel(tls);
        let pool = Pool::new(receiver);
        let changes = pool.changes();
        let (endpoints, wanted) = watch::channel(endpoints);
        let stop = CancellationToken::new();
        let runner = (pool.clone(), stop.clone());
        let task = tokio::spawn(async move { runner.0.run(wanted, runner.1).await });
        Self {
            pool,
            changes,
            endpoints,
            stop,
            task,
            _tls: sender,
        }
    }

    /// Waits, woken by changes alone, until `condition` holds.
    async fn until(&mut self, what: &str, condition: impl Fn(&Pool) -> bool) {
        let wait = async {
            while !condition(&self.pool) {
                self.changes.recv().await.unwrap();
            }
        };
        let waited = tokio::time::timeout(DEADLINE, wait).await;
        waited.unwrap_or_else(|_| panic!("{what} did not come"));
    }

    async fn close(self) {
        self.stop.cancel();
        tokio::time::timeout(DEADLINE, self.task)
            .await
            .unwrap()
            .unwrap();
    }
}

fn import(id: &str) -> ImportJob {
    ImportJob {
        id: id.into(),
        checksum: Some(format!("sha256:{}", "0a".repeat(32))),
        format: Some(ImageFormat::Raw),
        preallocation: true,
        expected: Facts {
            format: ImageFormat::Raw,
            packing: None,
            virtual_size: Some(1024),
            source_size: None,
            validator: None,
            ranges: true,
        },
        pod_uid: "pod".into(),
        volume_name: "pv".into(),
        volume_kind: VolumeKind::Block,
    }
}

fn copy(id: &str) -> CopyJob {
    let volume = |name: &str, kind| JobVolume {
        name: name.into(),
        kind,
    };
    CopyJob {
        id: id.into(),
        pod_uid: "pod".into(),
        source: volume("pv-1", VolumeKind::Block),
        target: volume("pv-2", VolumeKind::Filesystem),
        only_differences: true,
    }
}

fn web() -> Source {
    Source {
        place: Place::Http {
            url: SourceUrl::new("http://example.com/disk.raw"),
            basic: Some(Basic {
                username: "reader".into(),
                password: "s3cret".into(),
            }),
            headers: vec![("X-Token".into(), "s3cret too".into())],
        },
        authorities: Some("PEM".into()),
    }
}

fn job(id: &str, state: proto::JobState, done: u64) -> proto::Job {
    proto::Job {
        id: id.into(),
        state: state.into(),
        progress: Some(proto::Progress {
            total: 1024,
            done,
            ..proto::Progress::default()
        }),
        ..proto::Job::default()
    }
}

#[tokio::test]
async fn jobs_are_started_followed_and_cancelled() {
    let keys = certificates();
    let agent = Simulated::named("n1");
    agent.put(job("old-0", proto::JobState::Succeeded, 1024));
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    links
        .until("the snapshot", |pool| pool.synced() == ["n1"])
        .await;
    assert_eq!(links.pool.jobs_of("old").len(), 1);

    let probed = links.pool.probe("n1", &web()).await.unwrap();
    assert_eq!(probed.unwrap().virtual_size, Some(1024));

    let started = links
        .pool
        .start("n1", &import("uid-0"), &web())
        .await
        .unwrap();
    assert_eq!(started.state, JobState::Pending);
    // Known at once, before the stream tells of it.
    assert_eq!(links.pool.jobs_of("uid").len(), 1);
    agent.put(job("uid-0", proto::JobState::Transferring, 512));
    let half = |pool: &Pool| pool.jobs_of("uid")[0].job.progress.percent() == 50;
    links.until("progress", half).await;
    // The same id is the same job.
    let again = links
        .pool
        .start("n1", &import("uid-0"), &web())
        .await
        .unwrap();
    assert_eq!(again.state, JobState::Transferring);

    links.pool.cancel("n1", "uid-0").await.unwrap();
    assert_eq!(links.pool.jobs_of("uid"), []);
    links.pool.cancel("n1", "uid-0").await.unwrap();
    links.close().await;
}

#[tokio::test]
async fn a_copy_is_started_with_both_volumes_and_followed() {
    let keys = certificates();
    let agent = Simulated::named("n1");
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    links
        .until("the snapshot", |pool| pool.synced() == ["n1"])
        .await;
    let copy = copy("uid-3");
    let started = links.pool.copy("n1", &copy).await.unwrap();
    assert_eq!(started.state, JobState::Pending);
    let volume = |name: &str, mode: proto::VolumeMode| {
        Some(proto::PodVolume {
            pod_uid: "pod".into(),
            volume_name: name.into(),
            mode: mode.into(),
        })
    };
    let asked = proto::CopySpec {
        source: volume("pv-1", proto::VolumeMode::Block),
        target: volume("pv-2", proto::VolumeMode::Filesystem),
        only_differences: true,
    };
    assert_eq!(agent.copied(), [asked]);
    agent.put(job("uid-3", proto::JobState::Succeeded, 1024));
    let done = |pool: &Pool| pool.jobs_of("uid")[0].job.state == JobState::Succeeded;
    links.until("the end", done).await;
    // The same id is the same job, whatever it came to.
    let again = links.pool.copy("n1", &copy).await.unwrap();
    assert_eq!(again.state, JobState::Succeeded);
    agent.answer_starts_with(tonic::Code::InvalidArgument);
    let refused = links.pool.copy("n1", &copy).await.unwrap_err();
    assert!(matches!(refused, AgentError::Refused { .. }), "{refused}");
    links.close().await;
}

#[tokio::test]
async fn every_listener_hears_of_every_change() {
    let keys = certificates();
    let agent = Simulated::named("n1");
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    let mut others = [links.pool.changes(), links.pool.changes()];
    // One that listens no more keeps nothing from the others.
    drop(links.pool.changes());
    links
        .until("the snapshot", |pool| pool.synced() == ["n1"])
        .await;
    agent.put(job("uid-0", proto::JobState::Transferring, 512));
    let known = |pool: &Pool| !pool.jobs_of("uid").is_empty();
    links.until("the job", known).await;
    for other in &mut others {
        let wait = async {
            let mut heard = vec![];
            while heard.last() != Some(&Change::Owner("uid".into())) {
                heard.push(other.recv().await.unwrap());
            }
            heard
        };
        let mut heard = tokio::time::timeout(DEADLINE, wait).await.unwrap();
        heard.retain(|change| !matches!(change, Change::Devices(_)));
        assert_eq!(heard[0], Change::Agents);
    }
    links.close().await;
}

#[tokio::test]
async fn an_agent_that_comes_back_is_synced_afresh() {
    let keys = certificates();
    let agent = Simulated::named("n1");
    agent.put(job("uid-0", proto::JobState::Transferring, 1));
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    links
        .until("the snapshot", |pool| pool.synced() == ["n1"])
        .await;
    assert_eq!(links.pool.jobs_of("uid").len(), 1);

    agent.stop();
    links
        .until("the loss", |pool| pool.synced().is_empty())
        .await;
    assert!(matches!(links.pool.state("n1"), AgentState::Away { .. }));
    let error = links.pool.cancel("n1", "uid-0").await.unwrap_err();
    assert_eq!(error, AgentError::Away { node: "n1".into() });

    // Another agent in its place, with an empty journal.
    let successor = Simulated::named("n1");
    let address = successor.serve(&keys.authority, &keys.server).await;
    links
        .endpoints
        .send_replace([("n1".into(), address)].into());
    links
        .until("the return", |pool| pool.synced() == ["n1"])
        .await;
    assert_eq!(links.pool.jobs(), []);
    links.close().await;
}

#[tokio::test]
async fn an_agent_of_another_node_or_authority_is_not_believed() {
    let (keys, strangers) = (certificates(), certificates());
    let other = Simulated::named("n9")
        .serve(&keys.authority, &keys.server)
        .await;
    // Shows a certificate of an authority that is not trusted here, and
    // trusts the coordinator's.
    let stranger = Simulated::named("n2")
        .serve(&keys.authority, &strangers.server)
        .await;
    // Trusts another authority than the coordinator's certificate is of.
    let strict = Simulated::named("n3")
        .serve(&strangers.authority, &keys.server)
        .await;
    let good = Simulated::named("n4")
        .serve(&keys.authority, &keys.server)
        .await;
    let endpoints: BTreeMap<_, _> = [
        ("n1".to_owned(), other),
        ("n2".to_owned(), stranger),
        ("n3".to_owned(), strict),
        ("n4".to_owned(), good),
    ]
    .into();
    let mut links = Links::to(endpoints, keys.client);
    links
        .until("the good one", |pool| pool.synced() == ["n4"])
        .await;
    for node in ["n1", "n2", "n3"] {
        assert!(
            matches!(links.pool.state(node), AgentState::Away { .. }),
            "{node}"
        );
    }
    links.close().await;
}

#[tokio::test]
async fn a_refusal_is_told_from_a_failure() {
    let keys = certificates();
    let agent = Simulated::named("n1");
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    links
        .until("the snapshot", |pool| pool.synced() == ["n1"])
        .await;
    agent.answer_starts_with(tonic::Code::InvalidArgument);
    let refused = links
        .pool
        .start("n1", &import("uid-0"), &web())
        .await
        .unwrap_err();
    assert!(!refused.is_retryable(), "{refused}");
    agent.answer_starts_with(tonic::Code::Unavailable);
    let failed = links
        .pool
        .start("n1", &import("uid-0"), &web())
        .await
        .unwrap_err();
    assert!(failed.is_retryable(), "{failed}");
    links.close().await;
}

#[tokio::test]
async fn what_lets_in_at_a_source_goes_with_the_call() {
    let keys = certificates();
    let agent = Simulated::named("n1");
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    links
        .until("the snapshot", |pool| pool.synced() == ["n1"])
        .await;
    let object = Source {
        place: Place::Object {
            object: ObjectPlace {
                bucket: "images".into(),
                key: "disk".into(),
                endpoint: Some("http://s3.example:9000".into()),
                region: Some("here".into()),
                path_style: true,
            },
            signing: Signing::Keys {
                id: "id".into(),
                key: "s3cret".into(),
                token: None,
            },
        },
        authorities: None,
    };
    links.pool.probe("n1", &object).await.unwrap().unwrap();
    links
        .pool
        .start("n1", &import("uid-0"), &web())
        .await
        .unwrap();
    let (sources, spec) = agent.asked();
    let Some(proto::source::Kind::ObjectStore(store)) = sources[0].kind.clone() else {
        panic!("{sources:?}");
    };
    assert_eq!(store.region.as_deref(), Some("here"));
    let signed = proto::stored_object::Credentials::Keys(proto::AccessKeys {
        access_key_id: "id".into(),
        secret_access_key: "s3cret".into(),
        session_token: None,
    });
    assert_eq!(store.credentials, Some(signed));
    let Some(proto::source::Kind::Http(web)) = sources[1].kind.clone() else {
        panic!("{sources:?}");
    };
    assert_eq!(web.basic.unwrap().password, "s3cret");
    assert_eq!(web.headers[0].value, "s3cret too");
    assert_eq!(web.authorities.as_deref(), Some("PEM"));
    assert_eq!(spec.format(), proto::ImageFormat::Raw);
    assert!(spec.preallocation && spec.checksum.is_some());
    links.close().await;
}
