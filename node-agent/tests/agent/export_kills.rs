//! An agent that is killed while it uploads, over and over.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hypercloud_proto::agent::v1 as proto;
use proto::start_job_request::Spec;
use rustix::process::{Pid, Signal, kill_process};
use test_store::{KEYS, Setup, Store};
use tokio::time::Instant;

use crate::disks::{Volume, disk};
use crate::export::{Expected, JOB, KEY, asked, assert_discreet, spec, stored};
use crate::kubelet::Kubelet;
use crate::process::{Agent, Client, end, forget, job, pid};
use crate::{DEADLINE, is_root};

/// How often the agent is killed.
const KILLS: usize = 50;
/// The longest time, in microseconds, between what is waited for and a kill.
const LONGEST: u64 = 120_000;
/// The most kills of one export, after which it comes to its end.
const KILLS_OF_ONE: u64 = 7;

/// Numbers without a pattern, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// Waits until the store was asked so often, and a little more, or the job
/// is at its end.
async fn until_asked(store: &Store, requests: usize, client: &mut Client, id: &str, more: u64) {
    let until = Instant::now() + DEADLINE;
    while store.seen().len() < requests {
        if job(client, id).await.state() >= proto::JobState::Succeeded {
            return;
        }
        assert!(Instant::now() < until, "nothing is asked any more");
    }
    // The random point.
    tokio::time::sleep(Duration::from_micros(more)).await;
}

/// How an export ends that was killed.
enum End {
    /// It is gone on with.
    Completed,
    /// It is cancelled by the agent that has keys for it.
    Cancelled,
    /// It is cancelled by one that has none, as the coordinator does it.
    Discarded,
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_kills_leave_a_right_object_or_none_and_no_parts() {
    if !is_root("fifty_kills_leave_a_right_object_or_none_and_no_parts") {
        return;
    }
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let seed = seed.as_nanos() as u64 | 1;
    eprintln!("seed {seed}");
    let mut random = Random(seed);
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let store = Store::start(Setup::default()).await.unwrap();
    let bytes = disk(80);
    let expected = Expected::new(&bytes);
    let volume = Volume::filesystem(&kubelet, "pvc-1", Some(&bytes));
    let (mut kills, mut exports, mut completed, mut late) = (0, 0, 0, 0);
    let mut given_up = 0;
    let mut child = agent.spawn(kubelet.root());
    while kills < KILLS {
        exports += 1;
        let before = kills;
        let (id, key) = (format!("job-{exports}"), format!("disk-{exports}"));
        let asked = || proto::StartJobRequest {
            job_id: id.clone(),
            spec: Some(Spec::Export(proto::ExportSpec {
                object: Some(stored(&store, &key, Some(KEYS.1))),
                ..spec(&store, volume.mode())
            })),
        };
        let what = format!("seed {seed}, export {exports}");
        let mut client = agent.client().await;
        client.start_job(asked()).await.unwrap();
        for _ in 0..=random.below(KILLS_OF_ONE) {
            let requests = store.seen().len() + random.below(6) as usize;
            let more = random.below(LONGEST);
            until_asked(&store, requests, &mut client, &id, more).await;
            let ended = job(&mut client, &id).await.state() >= proto::JobState::Succeeded;
            child.kill().await.unwrap();
            kills += 1;
            child = agent.spawn(kubelet.root());
            client = agent.client().await;
            if ended {
                break;
            }
            client.start_job(asked()).await.unwrap();
        }
        let way = match random.below(4) {
            // One at least comes to its end.
            _ if kills >= KILLS => End::Completed,
            0 => End::Cancelled,
            1 => End::Discarded,
            _ => End::Completed,
        };
        if !matches!(way, End::Completed) {
            // And one, perhaps, before it is discarded.
            given_up += kills - before + 1;
        }
        match way {
            End::Completed => {
                let job = end(&mut client, &id).await;
                assert_eq!(job.state(), proto::JobState::Succeeded, "{what}: {job:?}");
                assert_eq!(job.digest, Some(expected.digest()), "{what}");
                assert!(store.object(&key).is_some(), "{what}");
                // Not even one that had no part when the agent was killed.
                let left = store.uploads().into_iter().any(|upload| upload.key == key);
                assert!(!left, "{what}");
                forget(&mut client, &id).await;
            }
            End::Cancelled => forget(&mut client, &id).await,
            End::Discarded => {
                child.kill().await.unwrap();
                child = agent.spawn(kubelet.root());
                client = agent.client().await;
                let upload = job(&mut client, &id).await.upload_id;
                forget(&mut client, &id).await;
                if let Some(upload_id) = upload {
                    let request = proto::DiscardUploadRequest {
                        object: Some(stored(&store, &key, Some(KEYS.1))),
                        upload_id,
                    };
                    let answer = client.discard_upload(request).await.unwrap();
                    assert_eq!(answer.into_inner().failure, None, "{what}");
                }
            }
        }
        let left = store.uploads();
        assert!(
            left.iter().all(|upload| upload.parts.is_empty()),
            "{what}: {left:?}"
        );
        if let Some(object) = store.object(&key) {
            expected.judge(&object, "qcow2");
            completed += 1;
            late += usize::from(!matches!(way, End::Completed));
            store.remove(&key);
        }
    }
    let empty = store.uploads().len();
    eprintln!(
        "{kills} kills of {exports} exports: {completed} objects, {late} of them \
         complete before they were cancelled; {empty} uploads without a part"
    );
    assert!(completed > 0);
    // Of an export that nobody goes on with, one may be left for each kill:
    // it was begun in that very moment, before anything could know of it.
    assert!(empty <= given_up, "{empty} of {given_up}");
    assert_discreet(&agent);
    child.kill().await.unwrap();
    volume.let_go();
}

/// The last moment there is: the store makes the object, and nobody hears of
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_knows_the_object_that_it_made_and_did_not_hear_of() {
    if !is_root("an_agent_knows_the_object_that_it_made_and_did_not_hear_of") {
        return;
    }
    // In parts, and in one piece.
    for mebibytes in [40, 3] {
        let (kubelet, agent) = (Kubelet::new(), Agent::new());
        let bytes = disk(mebibytes);
        let expected = Expected::new(&bytes);
        let volume = Volume::filesystem(&kubelet, "pvc-1", Some(&bytes));
        let victim: Arc<Mutex<Option<Pid>>> = Arc::default();
        let killer = Arc::clone(&victim);
        let setup = Setup::default().twisted(move |parts, _| {
            let query = parts.uri.query().unwrap_or_default();
            let completes = match parts.method.as_str() {
                "POST" => query.contains("uploadId="),
                "PUT" => !query.contains("uploadId="),
                _ => false,
            };
            // What the store has got is done all the same.
            if completes && let Some(victim) = killer.lock().unwrap().take() {
                kill_process(victim, Signal::KILL).unwrap();
            }
            None
        });
        let store = Store::start(setup).await.unwrap();
        let mut child = agent.spawn(kubelet.root());
        *victim.lock().unwrap() = Some(pid(&child));
        let asked = || asked(spec(&store, volume.mode()));
        let mut client = agent.client().await;
        client.start_job(asked()).await.unwrap();
        let ended = tokio::time::timeout(DEADLINE, child.wait()).await;
        assert!(!ended.unwrap().unwrap().success(), "it is killed");
        let made = store.object(KEY).is_some();
        eprintln!("{mebibytes} MiB: the object was made: {made}");
        let _child = agent.spawn(kubelet.root());
        let mut client = agent.client().await;
        client.start_job(asked()).await.unwrap();
        let job = end(&mut client, JOB).await;
        assert_eq!(job.state(), proto::JobState::Succeeded, "{job:?}");
        assert_eq!(job.digest, Some(expected.digest()));
        let object = store.object(KEY).unwrap();
        assert_eq!(job.object.unwrap().size, object.len() as u64);
        expected.judge(&object, "qcow2");
        assert_eq!(store.uploads(), []);
    }
}
