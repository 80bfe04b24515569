//! The jobs with an engine whose every move the test makes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::board::{Change, Status};
use super::runner::{Jobs, StartError};
use super::spec::{ImportSpec, JobId};
use super::state::{Checkpoint, Failure, Phase, Progress};
use crate::engine::{Engine, ImportOrder, Imported, Observer};
use crate::source::{Facts, Format, HttpUrl, Source};
use crate::volume::{
    Absence, PodUid, PodVolume, Volume, VolumeError, VolumeMode, VolumeName, Volumes,
};

const DEADLINE: Duration = Duration::from_secs(120);

/// One import that waits for the test to end it.
struct Running {
    order: ImportOrder,
    observer: Arc<dyn Observer>,
    stop: CancellationToken,
    /// Dropping it makes the import panic.
    end: oneshot::Sender<Result<Imported, Failure>>,
}

struct Puppet(mpsc::UnboundedSender<Running>);

#[async_trait]
impl Engine for Puppet {
    async fn probe(&self, _: &Source) -> Result<Facts, Failure> {
        Ok(facts())
    }

    async fn import(
        &self,
        order: ImportOrder,
        observer: Arc<dyn Observer>,
        stop: CancellationToken,
    ) -> Result<Imported, Failure> {
        let (end, ended) = oneshot::channel();
        self.0
            .send(Running {
                order,
                observer,
                stop,
                end,
            })
            .unwrap();
        ended.await.expect("the test lets this import die")
    }
}

/// Volumes that are there, but for those called "missing" and "exchanged".
struct Imagined;

#[async_trait]
impl Volumes for Imagined {
    async fn locate(&self, volume: &PodVolume) -> Result<Volume, VolumeError> {
        match volume.volume_name.as_str() {
            "missing" => Err(VolumeError::NotFound {
                volume: volume.clone(),
                absence: Absence::NoEntry("/nowhere".into()),
            }),
            "never" => std::future::pending().await,
            name => Ok(Volume::imagined(name)),
        }
    }

    async fn recheck(&self, volume: &PodVolume, _: &Volume) -> Result<(), VolumeError> {
        match volume.volume_name.as_str() {
            "exchanged" => Err(VolumeError::Exchanged {
                volume: volume.clone(),
            }),
            _ => Ok(()),
        }
    }
}

struct Node {
    jobs: Jobs,
    running: Mutex<mpsc::UnboundedReceiver<Running>>,
}

impl Node {
    fn start(journal: &Path, concurrent: usize) -> Self {
        let (engine, running) = mpsc::unbounded_channel();
        let engine = Arc::new(Puppet(engine));
        let (jobs, set_aside) =
            Jobs::open(journal, engine, Arc::new(Imagined), concurrent).unwrap();
        assert!(set_aside.is_empty(), "{set_aside:?}");
        Self {
            jobs,
            running: Mutex::new(running),
        }
    }

    async fn next(&self) -> Running {
        timeout(DEADLINE, self.running.lock().await.recv())
            .await
            .unwrap()
            .unwrap()
    }

    /// Whether an import waits to be driven.
    async fn none_waits(&self) -> bool {
        self.running.lock().await.is_empty()
    }

    async fn until(&self, name: &str, wanted: impl Fn(&Phase) -> bool) -> Status {
        let mut watcher = self.jobs.board().watch();
        let seen = async {
            loop {
                for change in watcher.next().await {
                    match change {
                        Change::Changed(s) if s.id == id(name) && wanted(&s.phase) => return s,
                        _ => {}
                    }
                }
            }
        };
        timeout(DEADLINE, seen).await.unwrap()
    }
}

fn id(name: &str) -> JobId {
    JobId::parse(name).unwrap()
}

fn spec(volume: &str) -> ImportSpec {
    ImportSpec {
        source: Source::Http(HttpUrl::parse("http://images.test/a").unwrap()),
        volume: PodVolume {
            pod_uid: PodUid::parse("pod-1").unwrap(),
            volume_name: VolumeName::parse(volume).unwrap(),
            mode: VolumeMode::Filesystem,
        },
        expected: None,
    }
}

fn facts() -> Facts {
    Facts {
        format: Format::Raw,
        virtual_size: 4096,
        source_size: Some(4096),
        validator: None,
        ranges: true,
    }
}

fn progress(done: u64) -> Progress {
    Progress {
        total: 4096,
        done,
        received: done,
        written: done,
    }
}

fn done() -> Result<Imported, Failure> {
    Ok(Imported {
        facts: facts(),
        progress: progress(4096),
    })
}

fn stopped() -> Result<Imported, Failure> {
    Err(Failure {
        reason: "Cancelled".into(),
        message: String::new(),
        retryable: false,
    })
}

#[tokio::test]
async fn the_same_id_is_the_same_job() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    let first = node.jobs.start(id("a"), spec("v")).await.unwrap();
    assert_eq!(first.phase, Phase::Pending);
    assert!(
        place.path().join("a.json").exists(),
        "durable before the answer"
    );
    node.jobs.start(id("a"), spec("v")).await.unwrap();
    let other = node.jobs.start(id("a"), spec("w")).await.unwrap_err();
    assert!(matches!(other, StartError::Conflict(_)), "{other}");
    node.next().await.end.send(done()).unwrap();
    let end = node.until("a", Phase::is_end).await;
    assert_eq!(
        (end.phase, end.progress),
        (Phase::Succeeded, progress(4096))
    );
    assert_eq!(
        node.jobs.start(id("a"), spec("v")).await.unwrap().phase,
        Phase::Succeeded
    );
    assert!(node.none_waits().await, "one import only");
}

#[tokio::test]
async fn not_more_than_the_limit_run_and_the_rest_waits() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    for name in ["a", "b", "c"] {
        node.jobs.start(id(name), spec(name)).await.unwrap();
    }
    let (first, second) = (node.next().await, node.next().await);
    tokio::task::yield_now().await;
    assert!(node.none_waits().await);
    let pending = node
        .jobs
        .board()
        .list()
        .iter()
        .filter(|j| j.phase == Phase::Pending)
        .count();
    assert_eq!(pending, 1);
    first.end.send(done()).unwrap();
    node.next().await.end.send(done()).unwrap();
    second.end.send(done()).unwrap();
    for name in ["a", "b", "c"] {
        node.until(name, |p| *p == Phase::Succeeded).await;
    }
}

#[tokio::test]
async fn two_jobs_never_have_one_volume() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    let mut elsewhere = spec("v");
    elsewhere.volume.pod_uid = PodUid::parse("pod-2").unwrap();
    node.jobs.start(id("a"), spec("v")).await.unwrap();
    let first = node.next().await;
    node.jobs.start(id("b"), elsewhere).await.unwrap();
    node.jobs.start(id("c"), spec("w")).await.unwrap();
    let third = node.next().await;
    assert_eq!(
        third.order.volume,
        Volume::imagined("w"),
        "a waiting job takes no slot"
    );
    third.end.send(done()).unwrap();
    node.until("c", Phase::is_end).await;
    assert!(node.none_waits().await);
    first.end.send(done()).unwrap();
    node.next().await.end.send(done()).unwrap();
    node.until("b", |p| *p == Phase::Succeeded).await;
}

#[tokio::test]
async fn cancelling_answers_when_nothing_runs_any_more() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    node.jobs.start(id("a"), spec("v")).await.unwrap();
    let import = node.next().await;
    let jobs = node.jobs.clone();
    let cancel = tokio::spawn(async move { jobs.cancel(id("a")).await });
    timeout(DEADLINE, import.stop.cancelled()).await.unwrap();
    let again = node.jobs.start(id("a"), spec("v")).await.unwrap_err();
    assert!(matches!(again, StartError::Cancelling(_)), "{again}");
    assert!(!cancel.is_finished() && place.path().join("a.json").exists());
    import.end.send(stopped()).unwrap();
    timeout(DEADLINE, cancel).await.unwrap().unwrap().unwrap();
    assert!(!place.path().join("a.json").exists());
    assert_eq!(node.jobs.board().list(), []);
    node.jobs.cancel(id("a")).await.unwrap();
    node.jobs.start(id("a"), spec("w")).await.unwrap();
    assert_eq!(node.next().await.order.volume, Volume::imagined("w"));
}

#[tokio::test]
async fn jobs_that_wait_can_be_cancelled_too() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 1);
    node.jobs
        .start(id("preparing"), spec("never"))
        .await
        .unwrap();
    node.until("preparing", |p| *p == Phase::Preparing).await;
    node.jobs.start(id("for-a-slot"), spec("w")).await.unwrap();
    node.jobs
        .start(id("for-the-volume"), spec("never"))
        .await
        .unwrap();
    for name in ["for-the-volume", "for-a-slot", "preparing"] {
        timeout(DEADLINE, node.jobs.cancel(id(name)))
            .await
            .unwrap()
            .unwrap();
    }
    assert_eq!(node.jobs.board().list(), []);
}

#[tokio::test]
async fn a_restart_takes_up_what_was_not_finished() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    for (name, volume) in [("done", "u"), ("half", "v"), ("refused", "missing")] {
        node.jobs.start(id(name), spec(volume)).await.unwrap();
        if name == "done" {
            node.next().await.end.send(done()).unwrap();
        }
    }
    node.until("done", Phase::is_end).await;
    node.until("refused", Phase::is_end).await;
    let half = node.next().await;
    half.observer.facts(facts());
    let observer = half.observer.clone();
    let keep = move || observer.checkpoint(Checkpoint(json!({ "at": 1 })));
    tokio::task::spawn_blocking(keep).await.unwrap().unwrap();
    let jobs = node.jobs.clone();
    let stop = tokio::spawn(async move { jobs.stop().await });
    timeout(DEADLINE, half.stop.cancelled()).await.unwrap();
    half.end.send(stopped()).unwrap();
    timeout(DEADLINE, stop).await.unwrap().unwrap();
    let late = node.jobs.start(id("late"), spec("w")).await.unwrap_err();
    assert!(matches!(late, StartError::ShuttingDown), "{late}");
    drop((node, half.observer));

    let node = Node::start(place.path(), 2);
    let half = node.next().await;
    assert_eq!(half.order.resume, Some(Checkpoint(json!({ "at": 1 }))));
    assert_eq!(
        node.jobs.board().get(&id("done")).unwrap().phase,
        Phase::Succeeded
    );
    let refused = node.jobs.board().get(&id("refused")).unwrap().phase;
    assert!(matches!(refused, Phase::Failed(f) if f.reason == "VolumeNotFound" && f.retryable));
    half.end.send(done()).unwrap();
    node.until("half", |p| *p == Phase::Succeeded).await;
    assert!(node.none_waits().await);
}

#[tokio::test]
async fn every_bad_end_is_told_by_its_reason() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 4);
    let reason = async |name: &str| match node.until(name, Phase::is_end).await.phase {
        Phase::Failed(failure) => failure.reason,
        phase => format!("{phase:?}"),
    };

    node.jobs.start(id("lost"), spec("missing")).await.unwrap();
    assert_eq!(reason("lost").await, "VolumeNotFound");

    node.jobs
        .start(id("swapped"), spec("exchanged"))
        .await
        .unwrap();
    node.next().await.end.send(done()).unwrap();
    assert_eq!(reason("swapped").await, "VolumeExchanged");

    node.jobs.start(id("refused"), spec("v")).await.unwrap();
    let no = Failure {
        reason: "NotFound".into(),
        message: "404".into(),
        retryable: false,
    };
    node.next().await.end.send(Err(no)).unwrap();
    assert_eq!(reason("refused").await, "NotFound");

    node.jobs.start(id("dead"), spec("v")).await.unwrap();
    drop(node.next().await.end);
    assert_eq!(reason("dead").await, "InternalError");
    timeout(DEADLINE, node.jobs.cancel(id("dead")))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_journal_that_fails_stops_the_job_and_says_so() {
    let place = tempfile::tempdir().unwrap();
    let journal = place.path().join("jobs");
    let node = Node::start(&journal, 2);
    node.jobs.start(id("a"), spec("v")).await.unwrap();
    let import = node.next().await;
    std::fs::remove_dir_all(&journal).unwrap();

    let observer = import.observer.clone();
    let keep = move || observer.checkpoint(Checkpoint(json!(1)));
    tokio::task::spawn_blocking(keep)
        .await
        .unwrap()
        .unwrap_err();
    let refused = node.jobs.start(id("b"), spec("w")).await.unwrap_err();
    assert!(matches!(refused, StartError::Journal(_)), "{refused}");

    import.end.send(done()).unwrap();
    let Phase::Failed(failure) = node.until("a", Phase::is_end).await.phase else {
        panic!()
    };
    assert_eq!(
        (failure.reason.as_str(), failure.retryable),
        ("JournalFailed", true)
    );
}

#[tokio::test]
async fn progress_is_thinned_out_and_the_last_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    node.jobs.start(id("a"), spec("v")).await.unwrap();
    let import = node.next().await;
    import.observer.facts(facts());
    let mut watcher = node.jobs.board().watch();
    watcher.next().await;
    for done in 0..1000 {
        import.observer.progress(progress(done));
    }
    let shown = node.jobs.board().get(&id("a")).unwrap().progress.done;
    assert!(shown < 999, "{shown} was shown at once");
    import.observer.verifying();
    assert_eq!(node.jobs.board().get(&id("a")).unwrap().progress.done, 999);
    import.end.send(done()).unwrap();
    node.until("a", |p| *p == Phase::Succeeded).await;
}

#[tokio::test]
async fn a_caller_who_hangs_up_leaves_no_half_job() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    let mut call = Box::pin(node.jobs.start(id("a"), spec("v")));
    assert!(futures::poll!(&mut call).is_pending());
    drop(call);
    let import = node.next().await;
    assert!(place.path().join("a.json").exists());
    let mut call = Box::pin(node.jobs.cancel(id("a")));
    assert!(futures::poll!(&mut call).is_pending());
    drop(call);
    timeout(DEADLINE, import.stop.cancelled()).await.unwrap();
    import.end.send(stopped()).unwrap();
    timeout(DEADLINE, node.jobs.cancel(id("a")))
        .await
        .unwrap()
        .unwrap();
    assert!(!place.path().join("a.json").exists());
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_sat_out_from_the_checkpoint_and_not_for_ever() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 1);
    let away = || {
        let message = "nobody there".into();
        Err(Failure {
            reason: "ConnectFailed".into(),
            message,
            retryable: true,
        })
    };
    node.jobs.start(id("cold"), spec("u")).await.unwrap();
    node.next().await.end.send(away()).unwrap();
    node.until("cold", Phase::is_end).await;

    node.jobs.start(id("warm"), spec("v")).await.unwrap();
    let mut tries = 0;
    let failed = loop {
        let import = tokio::select! {
            import = node.next() => import,
            failed = node.until("warm", Phase::is_end) => break failed,
        };
        tries += 1;
        if tries == 1 {
            let observer = import.observer.clone();
            let keep = move || observer.checkpoint(Checkpoint(json!({ "at": 7 })));
            tokio::task::spawn_blocking(keep).await.unwrap().unwrap();
        } else {
            assert_eq!(import.order.resume, Some(Checkpoint(json!({ "at": 7 }))));
        }
        import.end.send(away()).unwrap();
    };
    assert_eq!(tries, 6);
    assert!(matches!(failed.phase, Phase::Failed(f) if f.reason == "ConnectFailed"));

    node.jobs.start(id("stopped"), spec("v")).await.unwrap();
    let import = node.next().await;
    let observer = import.observer.clone();
    let keep = move || observer.checkpoint(Checkpoint(json!({ "at": 8 })));
    tokio::task::spawn_blocking(keep).await.unwrap().unwrap();
    import.end.send(away()).unwrap();
    node.jobs.cancel(id("stopped")).await.unwrap();
    assert!(node.none_waits().await);
}
