//! The journal on a real directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::job::spec::ImportSpec;
use crate::job::state::{Checkpoint, Event, State, step};
use crate::source::{HttpUrl, Source};
use crate::volume::{PodUid, PodVolume, VolumeMode, VolumeName};

pub(super) fn record(id: &str, sequence: u64, at: u64) -> Record {
    let spec = ImportSpec {
        source: Source::Http(HttpUrl::parse("http://images.test/a?sig=1").unwrap()),
        volume: PodVolume {
            pod_uid: PodUid::parse("7f").unwrap(),
            volume_name: VolumeName::parse("pvc-1").unwrap(),
            mode: VolumeMode::Block,
        },
        expected: None,
        checksum: None,
        format: None,
        preallocation: false,
        needs_access: false,
    };
    let spec = spec.into();
    let events = [
        Event::Admitted,
        Event::Prepared,
        Event::Checkpointed(Checkpoint(serde_json::json!({ "at": at }))),
    ];
    let state = events
        .into_iter()
        .fold(State::accepted(), |s, e| step(s, e).0);
    Record {
        id: JobId::parse(id).unwrap(),
        sequence,
        spec,
        state,
    }
}

#[test]
fn what_was_written_is_loaded_in_the_order_of_acceptance() {
    let place = tempfile::tempdir().unwrap();
    let (journal, loaded) = Journal::open(place.path()).unwrap();
    assert!(loaded.records.is_empty());
    let (a, b, c) = (record("a", 3, 1), record("b.json", 1, 2), record("c", 2, 3));
    for r in [&a, &b, &c, &a] {
        journal.write(r).unwrap();
    }
    journal.remove(&c.id).unwrap();
    journal.remove(&c.id).unwrap();
    drop(journal);
    let (_, loaded) = Journal::open(place.path()).unwrap();
    assert_eq!(loaded.records, [b, a]);
    assert!(loaded.set_aside.is_empty());
}

#[test]
fn only_root_may_look() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("deep/jobs");
    let (journal, _) = Journal::open(&path).unwrap();
    journal.write(&record("a", 1, 1)).unwrap();
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("a.json")), 0o600);
}

#[test]
fn what_is_no_record_is_set_aside_and_the_rest_loads() {
    let place = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(place.path()).unwrap();
    journal.write(&record("good", 1, 1)).unwrap();
    drop(journal);
    let good = fs::read_to_string(place.path().join("good.json")).unwrap();
    let files = [
        ("torn.json", good[..good.len() / 2].to_owned()),
        ("empty.json", String::new()),
        ("misnamed.json", good.clone()),
        (
            "future.json",
            good.replacen("\"version\":1", "\"version\":3", 1),
        ),
        ("escape.json", good.replace("\"7f\"", "\"../7f\"")),
    ];
    for (name, text) in &files {
        fs::write(place.path().join(name), text).unwrap();
    }
    fs::write(place.path().join("half.json.tmp"), "{").unwrap();

    let (journal, loaded) = Journal::open(place.path()).unwrap();
    drop(journal);
    assert_eq!(loaded.records, [record("good", 1, 1)]);
    assert_eq!(
        loaded.set_aside.len(),
        files.len(),
        "{:?}",
        loaded.set_aside
    );
    for (name, text) in &files {
        let kept = fs::read_to_string(place.path().join(format!("{name}.corrupt"))).unwrap();
        assert_eq!(&kept, text);
    }
    assert!(!place.path().join("half.json.tmp").exists());
    let (_, loaded) = Journal::open(place.path()).unwrap();
    assert!(loaded.set_aside.is_empty(), "reported once");
}

#[test]
fn one_process_has_it_at_a_time() {
    let place = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(place.path()).unwrap();
    let Err(error) = Journal::open(place.path()) else {
        panic!("opened twice")
    };
    assert!(
        crate::job::drive::chain(&error).contains("another process"),
        "{error}"
    );
    drop(journal);
    Journal::open(place.path()).unwrap();
}
