//! The binary as a process: signals, a kill in the middle, probes.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use hypercloud_proto::agent::v1 as proto;
use proto::node_agent_client::NodeAgentClient;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tonic::transport::Channel;

use crate::certificates::Authority;
use crate::import::{Image, assert_same, checkpointed};
use crate::kubelet::{Kubelet, POD};
use crate::web::Web;
use crate::{DEADLINE, PROMPT, eventually, is_root};

const BINARY: &str = env!("CARGO_BIN_EXE_node-agent");

pub fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id().unwrap() as i32).unwrap()
}

/// Waits until the process handles SIGTERM itself.
async fn handles_sigterm(pid: Pid) {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    eventually("SIGTERM has a handler", async || {
        let status = fs::read_to_string(&path).ok()?;
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        (caught & (1 << (Signal::TERM.as_raw() - 1)) != 0).then_some(())
    })
    .await;
}

pub async fn ends_well(child: &mut Child, within: Duration) {
    let status = tokio::time::timeout(within, child.wait())
        .await
        .expect("it ends in time");
    assert_eq!(status.unwrap().code(), Some(0));
}

#[tokio::test]
async fn holding_ends_at_once_when_told() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut child = Command::new(BINARY)
            .arg("hold")
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        handles_sigterm(pid(&child)).await;
        kill_process(pid(&child), signal).unwrap();
        ends_well(&mut child, PROMPT).await;
    }
}

/// Process 1 of a container gets no default action for any signal.
#[tokio::test]
async fn holding_ends_at_once_as_process_one() {
    if !is_root("holding_ends_at_once_as_process_one") {
        return;
    }
    let mut child = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", BINARY, "hold"])
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let parent = child.id().unwrap();
    let children = format!("/proc/{parent}/task/{parent}/children");
    let first = eventually("the namespace has its process 1", async || {
        fs::read_to_string(&children)
            .ok()?
            .trim()
            .parse()
            .ok()
            .and_then(Pid::from_raw)
    })
    .await;
    handles_sigterm(first).await;
    kill_process(first, Signal::TERM).unwrap();
    ends_well(&mut child, PROMPT).await;
}

pub struct Agent {
    pub place: TempDir,
    authority: Authority,
    ports: [u16; 2],
}

impl Agent {
    pub fn new() -> Self {
        let (place, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        fs::create_dir(place.path().join("tls")).unwrap();
        authority.equip_agent(&place.path().join("tls"));
        // A node without devices: those of this machine are other tests'.
        fs::create_dir_all(place.path().join("host/sys/block")).unwrap();
        // Both are held until both are known, so they differ.
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = free.each_ref().map(|l| l.local_addr().unwrap().port());
        Self {
            place,
            authority,
            ports,
        }
    }

    pub fn spawn(&self, kubelet: &Path) -> Child {
        let path = |name| self.place.path().join(name);
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(path("log"))
            .unwrap();
        Command::new(BINARY)
            .args([
                "serve",
                "--allow-any-source-address",
                "--node-name",
                "node-1",
            ])
            .args(["--listen", &format!("127.0.0.1:{}", self.ports[0])])
            .args(["--health-listen", &format!("127.0.0.1:{}", self.ports[1])])
            .arg("--kubelet-root")
            .arg(kubelet)
            .arg("--state-dir")
            .arg(path("state"))
            .arg("--host-root")
            .arg(path("host"))
            .arg("--tls-dir")
            .arg(path("tls"))
            .stdout(Stdio::from(log))
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    pub async fn client(&self) -> NodeAgentClient<Channel> {
        let mut client = NodeAgentClient::new(self.authority.coordinator(self.ports[0]));
        eventually("the agent answers", async || {
            client.get_node(proto::GetNodeRequest {}).await.ok()
        })
        .await;
        client
    }

    async fn healthy(&self) -> bool {
        let address = format!("127.0.0.1:{}", self.ports[1]);
        let asked = Command::new(BINARY)
            .args(["healthy", "--health-listen", &address])
            .stderr(Stdio::null())
            .status();
        asked.await.unwrap().success()
    }

    /// A job as the journal has it; nothing where it has none.
    pub fn record(&self, id: &str) -> serde_json::Value {
        let journal = self.place.path().join(format!("state/jobs/{id}.json"));
        fs::read(journal)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.place.path().join("log")).unwrap()
    }
}

pub type Client = NodeAgentClient<Channel>;

/// A job as it stands.
pub async fn job(client: &mut Client, id: &str) -> proto::Job {
    let jobs = client.list_jobs(proto::ListJobsRequest {}).await.unwrap();
    let mut jobs = jobs.into_inner().jobs.into_iter();
    jobs.find(|job| job.id == id).expect("the job is known")
}

/// A job at its end.
pub async fn end(client: &mut Client, id: &str) -> proto::Job {
    eventually("the job ends", async || {
        let job = job(client, id).await;
        (job.state() >= proto::JobState::Succeeded).then_some(job)
    })
    .await
}

pub async fn forget(client: &mut Client, id: &str) {
    let cancel = proto::CancelJobRequest { job_id: id.into() };
    client.cancel_job(cancel).await.unwrap();
}

fn request(web: &Web) -> proto::StartJobRequest {
    let kind = proto::source::Kind::Http(proto::HttpSource {
        url: web.url(),
        ..proto::HttpSource::default()
    });
    let import = proto::ImportSpec {
        source: Some(proto::Source { kind: Some(kind) }),
        volume: Some(proto::PodVolume {
            pod_uid: POD.into(),
            volume_name: "pvc-1".into(),
            mode: proto::VolumeMode::Filesystem.into(),
        }),
        ..proto::ImportSpec::default()
    };
    let spec = Some(proto::start_job_request::Spec::Import(import));
    proto::StartJobRequest {
        job_id: "job-1".into(),
        spec,
    }
}

async fn get(address: String) -> (String, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (host, path) = address.split_once('/').unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_over_and_over_finishes_its_job() {
    if !is_root("an_agent_killed_over_and_over_finishes_its_job") {
        return;
    }
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let mounted = kubelet.mount("pvc-1");
    let image = Image::of_mebibytes(192);
    let size = image.qcow2.len();
    let web = Web::serve(image.qcow2).await;

    let mut child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    assert!(agent.healthy().await);
    web.allow(size / 2);
    client.start_job(request(&web)).await.unwrap();
    checkpointed(&agent.place.path().join("state/jobs"), "job-1").await;
    child.kill().await.unwrap();
    assert!(!agent.healthy().await);
    for _ in 0..2 {
        let mut child = agent.spawn(kubelet.root());
        let before = web.sent();
        web.allow(8 << 20);
        eventually("it goes on by itself", async || {
            (web.sent() >= before + (4 << 20)).then_some(())
        })
        .await;
        child.kill().await.unwrap();
    }

    let before = web.sent();
    let mut child = agent.spawn(kubelet.root());
    web.allow(1 << 30);
    let mut client = agent.client().await;
    let again = client.start_job(request(&web)).await.unwrap().into_inner();
    assert_eq!(
        again.id, "job-1",
        "the same job to a coordinator that asks again"
    );
    let job = eventually("the job ends", async || {
        let jobs = client
            .list_jobs(proto::ListJobsRequest {})
            .await
            .unwrap()
            .into_inner()
            .jobs;
        let ended = |j: &proto::Job| j.state() >= proto::JobState::Succeeded;
        jobs.into_iter().find(ended)
    })
    .await;
    assert_eq!(job.state(), proto::JobState::Succeeded, "{job:?}");
    assert_same(&fs::read(mounted.0.join("disk.img")).unwrap(), &image.raw);
    // How much the killed ones did in vain, nobody says.
    let sent = (web.sent() - before) as usize;
    assert!(
        sent < size - (1 << 20),
        "{sent} bytes sent to the last for an image of {size}: it began anew"
    );

    let health = format!("127.0.0.1:{}", agent.ports[1]);
    assert!(get(format!("{health}/readyz")).await.0.contains("200"));
    let (_, metrics) = get(format!("{health}/metrics")).await;
    assert!(
        metrics.contains("node_agent_jobs{phase=\"succeeded\"} 1"),
        "{metrics}"
    );
    assert!(metrics.contains("\nnode_agent_devices 0\n"), "{metrics}");
    let peak = metrics
        .lines()
        .find_map(|line| line.strip_prefix("process_resident_memory_max_bytes "))
        .and_then(|value| value.parse::<u64>().ok())
        .unwrap();
    eprintln!("peak resident memory: {} MiB", peak >> 20);
    // One job's half of the default budget, and the process itself.
    assert!(peak < 160 << 20, "{peak}");
    kill_process(pid(&child), Signal::TERM).unwrap();
    ends_well(&mut child, PROMPT).await;
    assert!(
        !agent.log().contains("s3cret"),
        "the log shows a signed URL"
    );
    assert!(agent.log().contains("\"job\":\"job-1\""), "{}", agent.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_waits_to_be_let_in_again() {
    if !is_root("a_killed_agent_waits_to_be_let_in_again") {
        return;
    }
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let mounted = kubelet.mount("pvc-1");
    let image = Image::of_mebibytes(32);
    let web = Web::serve(image.qcow2).await;
    let guarded = || {
        let mut request = request(&web);
        let Some(proto::start_job_request::Spec::Import(import)) = &mut request.spec else {
            panic!()
        };
        let source = import
            .source
            .as_mut()
            .and_then(|source| source.kind.as_mut());
        let Some(proto::source::Kind::Http(http)) = source else {
            panic!()
        };
        http.basic = Some(proto::BasicCredentials {
            username: "reader".into(),
            password: "p4ssw0rd".into(),
        });
        request
    };
    let mut child = agent.spawn(kubelet.root());
    web.allow(8 << 20);
    agent.client().await.start_job(guarded()).await.unwrap();
    let journal = agent.place.path().join("state/jobs");
    eventually("bytes move", async || (web.sent() >= 4 << 20).then_some(())).await;
    child.kill().await.unwrap();

    let _child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    let mut jobs = async || {
        let jobs = client.list_jobs(proto::ListJobsRequest {}).await.unwrap();
        jobs.into_inner().jobs.remove(0)
    };
    let job = jobs().await;
    assert_eq!(
        (job.state(), job.awaiting_access),
        (proto::JobState::Pending, true)
    );
    web.allow(1 << 30);
    agent.client().await.start_job(guarded()).await.unwrap();
    let job = eventually("the job ends", async || {
        let job = jobs().await;
        (job.state() >= proto::JobState::Succeeded).then_some(job)
    })
    .await;
    assert_eq!(job.state(), proto::JobState::Succeeded, "{job:?}");
    assert_same(&fs::read(mounted.0.join("disk.img")).unwrap(), &image.raw);
    let record = fs::read_to_string(journal.join("job-1.json")).unwrap();
    for written in [agent.log(), record] {
        assert!(!written.contains("p4ssw0rd"), "{written}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_in_the_middle_leaves_the_job_to_the_next_start() {
    if !is_root("sigterm_in_the_middle_leaves_the_job_to_the_next_start") {
        return;
    }
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let mounted = kubelet.mount("pvc-1");
    let image = Image::of_mebibytes(32);
    let web = Web::serve(image.qcow2).await;
    let mut child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    web.allow(8 << 20);
    client.start_job(request(&web)).await.unwrap();
    let mut watch = client
        .watch_jobs(proto::WatchJobsRequest {})
        .await
        .unwrap()
        .into_inner();
    eventually("bytes move", async || (web.sent() >= 4 << 20).then_some(())).await;
    let asked = Instant::now();
    kill_process(pid(&child), Signal::TERM).unwrap();
    ends_well(&mut child, PROMPT).await;
    eprintln!("ended {} ms after SIGTERM", asked.elapsed().as_millis());
    let drained = async { while let Ok(Some(_)) = watch.message().await {} };
    tokio::time::timeout(DEADLINE, drained).await.unwrap();

    web.allow(1 << 30);
    let _child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    eventually("the job succeeds", async || {
        let jobs = client
            .list_jobs(proto::ListJobsRequest {})
            .await
            .unwrap()
            .into_inner()
            .jobs;
        (jobs[0].state() == proto::JobState::Succeeded).then_some(())
    })
    .await;
    assert_same(&fs::read(mounted.0.join("disk.img")).unwrap(), &image.raw);
}

#[tokio::test]
async fn a_senseless_configuration_ends_the_process_with_a_reason() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    let state = file.join("state");
    let base = ["serve", "--node-name", "n", "--listen", "127.0.0.1:0"];
    let wrong: [(&[&str], &str); 2] = [
        (&["--memory-budget", "1Mi"], "memory budget"),
        (&["--state-dir", state.to_str().unwrap()], "job journal"),
    ];
    for (options, said) in wrong {
        let child = Command::new(BINARY)
            .args(base)
            .args(["--health-listen", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(DEADLINE, child)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(said), "{error}");
    }
}
