//! The jobs with an engine whose every move the test makes.

mod access;
mod copies;
mod exports;
mod puppet;

use puppet::*;
use serde_json::json;
use tokio::time::timeout;

use super::runner::StartError;
use super::state::{Checkpoint, Failure, Phase};
use crate::volume::{PodUid, Volume};

#[tokio::test]
async fn the_same_id_is_the_same_job() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    let first = node.begin("a", spec("v")).await.unwrap();
    assert_eq!(first.phase, Phase::Pending);
    assert!(
        place.path().join("a.json").exists(),
        "durable before the answer"
    );
    node.begin("a", spec("v")).await.unwrap();
    let other = node.begin("a", spec("w")).await.unwrap_err();
    assert!(matches!(other, StartError::Conflict(_)), "{other}");
    node.next().await.end.send(done()).unwrap();
    let end = node.until("a", Phase::is_end).await;
    assert_eq!(
        (end.phase, end.progress),
        (Phase::Succeeded, progress(4096))
    );
    assert_eq!(
        node.begin("a", spec("v")).await.unwrap().phase,
        Phase::Succeeded
    );
    assert!(node.none_waits().await, "one import only");
}

#[tokio::test]
async fn not_more_than_the_limit_run_and_the_rest_waits() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    for name in ["a", "b", "c"] {
        node.begin(name, spec(name)).await.unwrap();
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
    node.begin("a", spec("v")).await.unwrap();
    let first = node.next().await;
    node.begin("b", elsewhere).await.unwrap();
    node.begin("c", spec("w")).await.unwrap();
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
    node.begin("a", spec("v")).await.unwrap();
    let import = node.next().await;
    let jobs = node.jobs.clone();
    let cancel = tokio::spawn(async move { jobs.cancel(id("a")).await });
    timeout(DEADLINE, import.stop.cancelled()).await.unwrap();
    let again = node.begin("a", spec("v")).await.unwrap_err();
    assert!(matches!(again, StartError::Cancelling(_)), "{again}");
    assert!(!cancel.is_finished() && place.path().join("a.json").exists());
    import.end.send(stopped()).unwrap();
    timeout(DEADLINE, cancel).await.unwrap().unwrap().unwrap();
    assert!(!place.path().join("a.json").exists());
    assert_eq!(node.jobs.board().list(), []);
    node.jobs.cancel(id("a")).await.unwrap();
    node.begin("a", spec("w")).await.unwrap();
    assert_eq!(node.next().await.order.volume, Volume::imagined("w"));
}

#[tokio::test]
async fn jobs_that_wait_can_be_cancelled_too() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 1);
    node.begin("preparing", spec("never")).await.unwrap();
    node.until("preparing", |p| *p == Phase::Preparing).await;
    node.begin("for-a-slot", spec("w")).await.unwrap();
    node.begin("for-the-volume", spec("never")).await.unwrap();
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
        node.begin(name, spec(volume)).await.unwrap();
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
    let late = node.begin("late", spec("w")).await.unwrap_err();
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

    node.begin("lost", spec("missing")).await.unwrap();
    assert_eq!(reason("lost").await, "VolumeNotFound");

    node.begin("swapped", spec("exchanged")).await.unwrap();
    node.next().await.end.send(done()).unwrap();
    assert_eq!(reason("swapped").await, "VolumeExchanged");

    node.begin("refused", spec("v")).await.unwrap();
    let no = Failure {
        reason: "NotFound".into(),
        message: "404".into(),
        retryable: false,
    };
    node.next().await.end.send(Err(no)).unwrap();
    assert_eq!(reason("refused").await, "NotFound");

    node.begin("dead", spec("v")).await.unwrap();
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
    node.begin("a", spec("v")).await.unwrap();
    let import = node.next().await;
    std::fs::remove_dir_all(&journal).unwrap();

    let observer = import.observer.clone();
    let keep = move || observer.checkpoint(Checkpoint(json!(1)));
    tokio::task::spawn_blocking(keep)
        .await
        .unwrap()
        .unwrap_err();
    let refused = node.begin("b", spec("w")).await.unwrap_err();
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
    node.begin("a", spec("v")).await.unwrap();
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
    let mut call = Box::pin(node.begin("a", spec("v")));
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
    node.begin("cold", spec("u")).await.unwrap();
    node.next().await.end.send(away()).unwrap();
    node.until("cold", Phase::is_end).await;

    node.begin("warm", spec("v")).await.unwrap();
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

    node.begin("stopped", spec("v")).await.unwrap();
    let import = node.next().await;
    let observer = import.observer.clone();
    let keep = move || observer.checkpoint(Checkpoint(json!({ "at": 8 })));
    tokio::task::spawn_blocking(keep).await.unwrap().unwrap();
    import.end.send(away()).unwrap();
    node.jobs.cancel(id("stopped")).await.unwrap();
    assert!(node.none_waits().await);
}
