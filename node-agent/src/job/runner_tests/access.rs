//! Jobs whose source asks to be let in.

use super::*;
use crate::job::spec::ImportSpec;
use crate::source::{Access, BasicCredentials, Secret};

fn guarded() -> ImportSpec {
    ImportSpec {
        needs_access: true,
        ..spec("v")
    }
}

fn access(password: &str) -> Access {
    Access {
        basic: Some(BasicCredentials {
            username: "reader".into(),
            password: Secret::new(password),
        }),
        ..Access::default()
    }
}

/// Every byte below `place`.
fn everything(place: &std::path::Path) -> String {
    let files = std::fs::read_dir(place).unwrap();
    files
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect()
}

/// A job that has a checkpoint when the agent stops.
async fn interrupted(place: &std::path::Path) {
    let node = Node::start(place, 1);
    let started = node
        .jobs
        .start(id("a"), guarded(), access("s3cret"))
        .await
        .unwrap();
    assert!(!started.awaiting_access);
    let import = node.next().await;
    assert_eq!(import.order.access, access("s3cret"));
    let observer = import.observer.clone();
    let keep = move || observer.checkpoint(Checkpoint(json!({ "at": 1 })));
    tokio::task::spawn_blocking(keep).await.unwrap().unwrap();
    let jobs = node.jobs.clone();
    let stop = tokio::spawn(async move { jobs.stop().await });
    timeout(DEADLINE, import.stop.cancelled()).await.unwrap();
    import.end.send(stopped()).unwrap();
    timeout(DEADLINE, stop).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_access_is_never_written_down_and_waited_for_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    interrupted(place.path()).await;
    assert!(everything(place.path()).contains("needsAccess"));
    assert!(!everything(place.path()).contains("s3cret"));

    let node = Node::start(place.path(), 1);
    let waiting = node.until("a", |phase| *phase == Phase::Pending).await;
    assert!(waiting.awaiting_access);
    // It holds up nobody: neither the only slot nor its volume is taken.
    node.begin("b", spec("v")).await.unwrap();
    node.next().await.end.send(done()).unwrap();
    node.until("b", Phase::is_end).await;

    let told = node.jobs.start(id("a"), guarded(), access("new")).await;
    assert!(!told.unwrap().awaiting_access);
    let import = node.next().await;
    assert_eq!(import.order.access, access("new"));
    assert_eq!(import.order.resume, Some(Checkpoint(json!({ "at": 1 }))));
    // The same call again changes nothing of a job that has what it needs.
    let again = node.jobs.start(id("a"), guarded(), access("late")).await;
    assert!(!again.unwrap().awaiting_access);
    import.end.send(done()).unwrap();
    let end = node.until("a", Phase::is_end).await;
    assert_eq!((end.phase, end.awaiting_access), (Phase::Succeeded, false));
    assert!(node.none_waits().await, "one import only");
}

#[tokio::test]
async fn a_job_that_waits_for_its_access_is_cancelled_or_stays_in_the_journal() {
    let place = tempfile::tempdir().unwrap();
    interrupted(place.path()).await;
    let node = Node::start(place.path(), 1);
    timeout(DEADLINE, node.jobs.stop()).await.unwrap();
    drop(node);

    let node = Node::start(place.path(), 1);
    // What asks for no access is another job.
    let other = node.begin("a", spec("v")).await.unwrap_err();
    assert!(matches!(other, StartError::Conflict(_)), "{other}");
    timeout(DEADLINE, node.jobs.cancel(id("a")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(node.jobs.board().list(), []);
    assert_eq!(everything(place.path()), "");
}

#[tokio::test]
async fn an_end_is_remembered_without_an_access() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 1);
    let start = node.jobs.start(id("a"), guarded(), access("s3cret"));
    start.await.unwrap();
    node.next().await.end.send(done()).unwrap();
    node.until("a", Phase::is_end).await;
    timeout(DEADLINE, node.jobs.stop()).await.unwrap();
    drop(node);
    let node = Node::start(place.path(), 1);
    let end = node.jobs.board().get(&id("a")).unwrap();
    assert_eq!((end.phase, end.awaiting_access), (Phase::Succeeded, false));
}
