//! Jobs that have two volumes.

use super::*;
use crate::engine::Observer;
use std::sync::Arc;

async fn keep(observer: &Arc<dyn Observer>, at: u64) {
    let observer = observer.clone();
    let keep = move || observer.checkpoint(Checkpoint(json!({ "at": at })));
    tokio::task::spawn_blocking(keep).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_copy_gets_both_volumes_and_ends_with_its_figures() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    node.begin("a", copy("v", "w")).await.unwrap();
    let other = node.begin("a", copy("w", "v")).await.unwrap_err();
    assert!(matches!(other, StartError::Conflict(_)), "{other}");
    let import = node.begin("a", spec("w")).await.unwrap_err();
    assert!(matches!(import, StartError::Conflict(_)), "{import}");
    let copying = node.next_copy().await;
    assert_eq!(copying.order.source, Volume::imagined("v"));
    assert_eq!(copying.order.target, Volume::imagined("w"));
    assert!(copying.order.only_differences && copying.order.resume.is_none());
    copying.observer.progress(progress(7));
    copying.end.send(Ok(progress(4096))).unwrap();
    let end = node.until("a", Phase::is_end).await;
    assert_eq!(
        (end.phase, end.progress, end.facts),
        (Phase::Succeeded, progress(4096), None)
    );
    assert!(node.none_waits().await, "one copy only");
}

#[tokio::test]
async fn a_copy_goes_on_by_itself_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 2);
    node.begin("a", copy("v", "w")).await.unwrap();
    let copying = node.next_copy().await;
    keep(&copying.observer, 5).await;
    let jobs = node.jobs.clone();
    let stop = tokio::spawn(async move { jobs.stop().await });
    timeout(DEADLINE, copying.stop.cancelled()).await.unwrap();
    copying.end.send(Err(stopped().unwrap_err())).unwrap();
    timeout(DEADLINE, stop).await.unwrap().unwrap();
    drop((node, copying.observer));

    let node = Node::start(place.path(), 2);
    let copying = node.next_copy().await;
    assert_eq!(copying.order.resume, Some(Checkpoint(json!({ "at": 5 }))));
    assert!(copying.order.only_differences);
    let status = node.jobs.board().get(&id("a")).unwrap();
    assert!(!status.awaiting_access);
    let again = node.begin("a", copy("v", "w")).await.unwrap();
    assert_eq!(again.phase, Phase::Transferring);
    copying.end.send(Ok(progress(4096))).unwrap();
    node.until("a", |p| *p == Phase::Succeeded).await;
}

#[tokio::test]
async fn a_source_is_shared_by_readers_and_a_target_is_not() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 8);
    node.begin("a", copy("v", "w")).await.unwrap();
    node.begin("b", copy("v", "x")).await.unwrap();
    let (first, second) = (node.next_copy().await, node.next_copy().await);

    // One would write what the others read, one would read what one writes.
    node.begin("onto-the-source", spec("v")).await.unwrap();
    node.begin("from-the-target", copy("w", "y")).await.unwrap();
    node.begin("onto-the-target", copy("z", "x")).await.unwrap();
    node.begin("elsewhere", spec("u")).await.unwrap();
    let elsewhere = node.next().await;
    assert_eq!(elsewhere.order.volume, Volume::imagined("u"));
    elsewhere.end.send(done()).unwrap();
    node.until("elsewhere", Phase::is_end).await;
    assert!(node.none_waits().await);

    let (first, second) = if first.order.target == Volume::imagined("w") {
        (first, second)
    } else {
        (second, first)
    };
    first.end.send(Ok(progress(4096))).unwrap();
    let third = node.next_copy().await;
    assert_eq!(third.order.source, Volume::imagined("w"));
    assert!(node.none_waits().await, "the source is still read");
    second.end.send(Ok(progress(4096))).unwrap();
    let fourth = node.next_copy().await;
    assert_eq!(fourth.order.target, Volume::imagined("x"));
    let import = node.next().await;
    assert_eq!(import.order.volume, Volume::imagined("v"));
    import.end.send(done()).unwrap();
    for copying in [third, fourth] {
        copying.end.send(Ok(progress(4096))).unwrap();
    }
    for name in ["onto-the-source", "from-the-target", "onto-the-target"] {
        node.until(name, |p| *p == Phase::Succeeded).await;
    }
}

#[tokio::test]
async fn copies_in_opposite_directions_do_not_wait_for_each_other() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 8);
    let names: Vec<_> = (0..12).map(|number| format!("job-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let spec = if number % 2 == 0 {
            copy("v", "w")
        } else {
            copy("w", "v")
        };
        node.begin(name, spec).await.unwrap();
    }
    for _ in &names {
        let copying = node.next_copy().await;
        assert!(node.none_waits().await, "one at a time");
        copying.end.send(Ok(progress(4096))).unwrap();
    }
    for name in &names {
        node.until(name, |p| *p == Phase::Succeeded).await;
    }
}

#[tokio::test]
async fn either_volume_that_is_not_there_is_named() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::start(place.path(), 4);
    let failure = async |name: &str| match node.until(name, Phase::is_end).await.phase {
        Phase::Failed(failure) => failure,
        phase => panic!("{phase:?}"),
    };
    for (name, spec) in [
        ("source", copy("missing", "w")),
        ("target", copy("v", "missing")),
    ] {
        node.begin(name, spec).await.unwrap();
        let failure = failure(name).await;
        assert_eq!(failure.reason, "VolumeNotFound");
        assert!(failure.message.contains("missing"), "{}", failure.message);
    }
    for (name, spec) in [
        ("read", copy("exchanged", "w")),
        ("written", copy("v", "exchanged")),
    ] {
        node.begin(name, spec).await.unwrap();
        let copying = node.next_copy().await;
        copying.end.send(Ok(progress(4096))).unwrap();
        assert_eq!(failure(name).await.reason, "VolumeExchanged");
    }
}
