//! Jobs that make objects, and what they leave in the store.

use std::sync::Arc;

use super::*;
use crate::engine::Observer;
use crate::job::spec::ExportSpec;
use crate::source::{Access, Secret, Signing};

fn failed(reason: &str, retryable: bool) -> Failure {
    Failure {
        reason: reason.into(),
        message: "no".into(),
        retryable,
    }
}

fn cancelled() -> Failure {
    stopped().unwrap_err()
}

/// Keeps a checkpoint of an upload.
async fn keep(observer: &Arc<dyn Observer>, upload: &str, at: u64) {
    let (observer, upload) = (observer.clone(), upload.to_owned());
    let keep = move || {
        observer.uploading(&upload);
        observer.checkpoint(Checkpoint(json!({ "at": at })))
    };
    tokio::task::spawn_blocking(keep).await.unwrap().unwrap();
}

async fn completes(observer: &Arc<dyn Observer>) -> std::io::Result<()> {
    let observer = observer.clone();
    let completing = move || {
        observer.verifying();
        observer.completing()
    };
    tokio::task::spawn_blocking(completing).await.unwrap()
}

fn guarded() -> (ExportSpec, Access) {
    let spec = ExportSpec {
        needs_access: true,
        ..export("v")
    };
    let access = Access {
        signing: Signing::Keys {
            access_key_id: "id".into(),
            secret_access_key: Secret::new("s3cret"),
            session_token: None,
        },
        ..Access::default()
    };
    (spec, access)
}

#[tokio::test]
async fn an_export_reads_its_volume_and_ends_with_its_object() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    node.begin("a", export("v")).await.unwrap();
    let other = ExportSpec {
        overwrite: true,
        owner: None,
        ..export("v")
    };
    let other = node.begin("a", other).await.unwrap_err();
    assert!(matches!(other, StartError::Conflict(_)), "{other}");
    let exporting = node.next_export().await;
    assert_eq!(exporting.order.volume, Volume::imagined("v"));
    assert_eq!(exporting.order.object, export("v").object);
    assert!(exporting.order.digest && exporting.order.resume.is_none());
    keep(&exporting.observer, "u-1", 1).await;
    let shown = node.jobs.board().get(&id("a")).unwrap();
    assert_eq!(shown.upload.as_deref(), Some("u-1"));
    completes(&exporting.observer).await.unwrap();
    exporting.end.send(exported()).unwrap();
    let end = node.until("a", Phase::is_end).await;
    assert_eq!((&end.phase, &end.upload), (&Phase::Succeeded, &None));
    assert_eq!(end.object, Some(object()));
    assert!(node.none_waits().await, "nothing is discarded");
    timeout(DEADLINE, node.jobs.stop()).await.unwrap();
    drop((node, exporting.observer));

    // Until it is forgotten, every coordinator that asks hears of the object.
    let node = Node::start(place.path(), 2);
    let end = node.begin("a", export("v")).await.unwrap();
    assert_eq!((end.phase, end.object), (Phase::Succeeded, Some(object())));
    node.jobs.cancel(id("a")).await.unwrap();
    assert!(node.none_waits().await, "an object that is whole stays");
}

#[tokio::test]
async fn a_volume_has_many_readers_but_none_beside_a_writer() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 8);
    node.begin("a", export("v")).await.unwrap();
    node.begin("b", export("v")).await.unwrap();
    node.begin("c", copy("v", "w")).await.unwrap();
    let (first, second) = (node.next_export().await, node.next_export().await);
    let third = node.next_copy().await;
    node.begin("writer", spec("v")).await.unwrap();
    node.begin("of-the-target", export("w")).await.unwrap();
    tokio::task::yield_now().await;
    assert!(
        node.none_waits().await,
        "one volume is read, one is written"
    );
    third.end.send(Ok(progress(4096))).unwrap();
    let fourth = node.next_export().await;
    assert_eq!(fourth.order.volume, Volume::imagined("w"));
    first.end.send(exported()).unwrap();
    node.until("a", Phase::is_end).await;
    assert!(node.none_waits().await, "it is still read");
    second.end.send(exported()).unwrap();
    let writer = node.next().await;
    writer.end.send(done()).unwrap();
    fourth.end.send(exported()).unwrap();
    for name in ["b", "writer", "of-the-target"] {
        node.until(name, |phase| *phase == Phase::Succeeded).await;
    }
}

#[tokio::test]
async fn a_cancelled_exports_parts_go_before_the_answer() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    let (spec, access) = guarded();
    let start = node.jobs.start(id("a"), spec, access.clone());
    start.await.unwrap();
    let exporting = node.next_export().await;
    keep(&exporting.observer, "u-1", 1).await;
    let jobs = node.jobs.clone();
    let cancel = tokio::spawn(async move { jobs.cancel(id("a")).await });
    timeout(DEADLINE, exporting.stop.cancelled()).await.unwrap();
    assert!(node.none_waits().await, "it may still send a part");
    exporting.end.send(Err(cancelled())).unwrap();
    let discarding = node.next_discard().await;
    assert_eq!(discarding.upload, "u-1");
    assert_eq!(discarding.access, access);
    assert!(!cancel.is_finished() && place.path().join("a.json").exists());
    discarding.answer.send(Ok(())).unwrap();
    timeout(DEADLINE, cancel).await.unwrap().unwrap().unwrap();
    assert!(!place.path().join("a.json").exists());

    // One that has stored nothing has nothing to discard.
    node.begin("b", export("v")).await.unwrap();
    let exporting = node.next_export().await;
    let jobs = node.jobs.clone();
    let cancel = tokio::spawn(async move { jobs.cancel(id("b")).await });
    timeout(DEADLINE, exporting.stop.cancelled()).await.unwrap();
    exporting.end.send(Err(cancelled())).unwrap();
    timeout(DEADLINE, cancel).await.unwrap().unwrap().unwrap();
    assert!(node.none_waits().await);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_keeps_no_job() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    node.begin("a", export("v")).await.unwrap();
    let exporting = node.next_export().await;
    keep(&exporting.observer, "u-1", 1).await;
    let jobs = node.jobs.clone();
    let cancel = tokio::spawn(async move { jobs.cancel(id("a")).await });
    timeout(DEADLINE, exporting.stop.cancelled()).await.unwrap();
    exporting.end.send(Err(cancelled())).unwrap();
    let _unanswered = node.next_discard().await;
    let patience = std::time::Duration::from_secs(20);
    timeout(patience, cancel).await.unwrap().unwrap().unwrap();
    assert_eq!(node.jobs.board().list(), []);
}

#[tokio::test]
async fn a_stop_of_the_agent_discards_nothing_and_the_next_one_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    let (spec, access) = guarded();
    let start = node.jobs.start(id("a"), spec.clone(), access.clone());
    start.await.unwrap();
    let exporting = node.next_export().await;
    keep(&exporting.observer, "u-1", 7).await;
    let jobs = node.jobs.clone();
    let stop = tokio::spawn(async move { jobs.stop().await });
    timeout(DEADLINE, exporting.stop.cancelled()).await.unwrap();
    exporting.end.send(Err(cancelled())).unwrap();
    timeout(DEADLINE, stop).await.unwrap().unwrap();
    assert!(node.none_waits().await, "its parts are gone on with");
    drop((node, exporting.observer));
    let record = std::fs::read_to_string(place.path().join("a.json")).unwrap();
    assert!(
        record.contains("u-1") && !record.contains("s3cret"),
        "{record}"
    );

    let node = Node::start(place.path(), 2);
    let waiting = node.jobs.board().get(&id("a")).unwrap();
    assert!(waiting.awaiting_access);
    assert_eq!(waiting.upload.as_deref(), Some("u-1"));
    node.jobs.start(id("a"), spec, access).await.unwrap();
    let exporting = node.next_export().await;
    assert_eq!(exporting.order.resume, Some(Checkpoint(json!({ "at": 7 }))));
    // The store did not know the upload any more: there is another one.
    keep(&exporting.observer, "u-2", 1).await;
    let shown = node.jobs.board().get(&id("a")).unwrap();
    assert_eq!(shown.upload.as_deref(), Some("u-2"));
    exporting.end.send(exported()).unwrap();
    node.until("a", |phase| *phase == Phase::Succeeded).await;
}

#[tokio::test]
async fn what_waits_is_discarded_where_it_is_let_in_and_forgotten_all_the_same() {
    let place = tempfile::tempdir().unwrap();
    let (spec, access) = guarded();
    let node = Node::start(place.path(), 2);
    let mut ends = Vec::new();
    for name in ["waits-for-access", "waits-for-its-turn"] {
        let start = node.jobs.start(id(name), spec.clone(), access.clone());
        start.await.unwrap();
        let exporting = node.next_export().await;
        keep(&exporting.observer, name, 1).await;
        ends.push((exporting.stop, exporting.end));
    }
    let jobs = node.jobs.clone();
    let stop = tokio::spawn(async move { jobs.stop().await });
    for (told, end) in ends {
        timeout(DEADLINE, told.cancelled()).await.unwrap();
        end.send(Err(cancelled())).unwrap();
    }
    timeout(DEADLINE, stop).await.unwrap().unwrap();
    drop(node);

    let node = Node::start(place.path(), 2);
    // A writer has the volume now.
    node.begin("writer", super::spec("v")).await.unwrap();
    let writer = node.next().await;
    let again = node.jobs.start(id("waits-for-its-turn"), spec, access);
    assert!(!again.await.unwrap().awaiting_access);
    let cancel = node.jobs.cancel(id("waits-for-access"));
    timeout(DEADLINE, cancel).await.unwrap().unwrap();
    assert!(node.none_waits().await, "nobody lets it in");
    let jobs = node.jobs.clone();
    let cancel = tokio::spawn(async move { jobs.cancel(id("waits-for-its-turn")).await });
    let discarding = node.next_discard().await;
    assert_eq!(discarding.upload, "waits-for-its-turn");
    discarding
        .answer
        .send(Err(failed("AccessDenied", false)))
        .unwrap();
    timeout(DEADLINE, cancel).await.unwrap().unwrap().unwrap();
    let left: Vec<_> = node
        .jobs
        .board()
        .list()
        .into_iter()
        .map(|job| job.id)
        .collect();
    assert_eq!(left, [id("writer")]);
    writer.end.send(done()).unwrap();
}

#[tokio::test]
async fn a_failure_is_seen_when_its_parts_are_gone_or_could_not_be_removed() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    let answers = [Ok(()), Err(failed("AccessDenied", false))];
    for (name, answer) in ["gone", "left"].into_iter().zip(answers) {
        node.begin(name, export("v")).await.unwrap();
        let exporting = node.next_export().await;
        keep(&exporting.observer, name, 1).await;
        let failure = failed("ObjectExists", false);
        exporting.end.send(Err(failure.clone())).unwrap();
        let discarding = node.next_discard().await;
        let before = node.jobs.board().get(&id(name)).unwrap();
        assert_eq!(before.phase, Phase::Transferring);
        let left = answer.is_err().then(|| name.to_owned());
        discarding.answer.send(answer).unwrap();
        let end = node.until(name, Phase::is_end).await;
        assert_eq!((end.phase, end.upload), (Phase::Failed(failure), left));
    }
}

#[tokio::test]
async fn no_object_is_made_of_a_volume_that_was_exchanged() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    node.begin("a", export("exchanged")).await.unwrap();
    let exporting = node.next_export().await;
    keep(&exporting.observer, "u-1", 1).await;
    completes(&exporting.observer).await.unwrap_err();
    exporting
        .end
        .send(Err(failed("JournalFailed", true)))
        .unwrap();
    let discarding = node.next_discard().await;
    discarding.answer.send(Ok(())).unwrap();
    let Phase::Failed(failure) = node.until("a", Phase::is_end).await.phase else {
        panic!("it is no success")
    };
    assert_eq!(
        (failure.reason.as_str(), failure.retryable),
        ("VolumeExchanged", true)
    );
    // What becomes of a volume once the object is there is nothing to it.
    node.begin("b", export("exchanged")).await.unwrap();
    node.next_export().await.end.send(exported()).unwrap();
    node.until("b", |phase| *phase == Phase::Succeeded).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_waited_for_even_at_the_very_end() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 1);
    node.begin("a", export("v")).await.unwrap();
    let exporting = node.next_export().await;
    keep(&exporting.observer, "u-1", 3).await;
    completes(&exporting.observer).await.unwrap();
    let away = failed("ServerError", true);
    exporting.end.send(Err(away)).unwrap();
    let exporting = node.next_export().await;
    assert_eq!(exporting.order.resume, Some(Checkpoint(json!({ "at": 3 }))));
    exporting.end.send(exported()).unwrap();
    node.until("a", |phase| *phase == Phase::Succeeded).await;
    assert!(node.none_waits().await);
}
