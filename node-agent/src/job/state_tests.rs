//! Tables over the job machine: every phase against every event.

use proptest::prelude::*;

use super::Effect::{Begin, Persist, Report, ReportProgress};
use super::Work::{Prepare, Release, Transfer};
use super::*;
use crate::source::{Checksum, Format};

fn facts() -> Facts {
    Facts {
        format: Format::Qcow2,
        packing: None,
        virtual_size: Some(1 << 30),
        source_size: Some(77),
        validator: Some("\"e\"".into()),
        ranges: true,
    }
}

fn digest() -> Checksum {
    format!("sha256:{}", "0a".repeat(32)).parse().unwrap()
}

fn progress(done: u64) -> Progress {
    Progress {
        total: 1 << 30,
        done,
        received: done / 2,
        written: done / 3,
    }
}

fn checkpoint(n: u64) -> Checkpoint {
    Checkpoint(serde_json::json!({ "at": n }))
}

fn failure() -> Failure {
    Failure {
        reason: "SourceNotFound".into(),
        message: "404".into(),
        retryable: false,
    }
}

fn in_phase(phase: Phase) -> State {
    State {
        phase,
        progress: progress(5),
        facts: None,
        checkpoint: Some(checkpoint(5)),
        digest: None,
        upload: Some("earlier".into()),
        object: None,
    }
}

fn object() -> ExportedObject {
    ExportedObject {
        size: 77,
        virtual_size: 1 << 30,
        etag: Some("\"e\"".into()),
        checksum: None,
        address: "http://store.test/images/disk".into(),
    }
}

fn phases() -> Vec<Phase> {
    vec![
        Phase::Pending,
        Phase::Preparing,
        Phase::Transferring,
        Phase::Verifying,
        Phase::Finalizing,
        Phase::Succeeded,
        Phase::Failed(failure()),
    ]
}

fn events() -> Vec<Event> {
    vec![
        Event::Admitted,
        Event::Prepared,
        Event::FactsFound(facts()),
        Event::Progressed(progress(9)),
        Event::Checkpointed(checkpoint(9)),
        Event::Uploading("upload".into()),
        Event::Discarded,
        Event::Verifying,
        Event::Completed {
            facts: Some(facts()),
            progress: progress(1 << 30),
            digest: Some(digest()),
            object: Some(object()),
        },
        Event::Released,
        Event::Failed(failure()),
        Event::Restarted,
    ]
}

/// The events that have a place in a phase: phase before, event, phase after,
/// effects.
fn transitions() -> Vec<(Phase, Event, Phase, Vec<Effect>)> {
    let imported = || Event::Completed {
        facts: Some(facts()),
        progress: progress(1 << 30),
        digest: Some(digest()),
        object: Some(object()),
    };
    let mut table = vec![
        (
            Phase::Pending,
            Event::Admitted,
            Phase::Preparing,
            vec![Report, Begin(Prepare)],
        ),
        (
            Phase::Preparing,
            Event::Prepared,
            Phase::Transferring,
            vec![Report, Begin(Transfer)],
        ),
        (
            Phase::Transferring,
            Event::FactsFound(facts()),
            Phase::Transferring,
            vec![Report],
        ),
        (
            Phase::Transferring,
            Event::Verifying,
            Phase::Verifying,
            vec![Report],
        ),
        (
            Phase::Transferring,
            imported(),
            Phase::Finalizing,
            vec![Report, Begin(Release)],
        ),
        (
            Phase::Verifying,
            imported(),
            Phase::Finalizing,
            vec![Report, Begin(Release)],
        ),
        (
            Phase::Finalizing,
            Event::Released,
            Phase::Succeeded,
            vec![Persist, Report],
        ),
    ];
    for phase in [Phase::Transferring, Phase::Verifying] {
        let moved = Event::Progressed(progress(9));
        table.push((phase.clone(), moved, phase.clone(), vec![ReportProgress]));
        let flushed = Event::Checkpointed(checkpoint(9));
        table.push((phase.clone(), flushed, phase.clone(), vec![Persist]));
        let uploading = Event::Uploading("upload".into());
        table.push((phase.clone(), uploading, phase, vec![Report]));
    }
    for phase in phases().into_iter().filter(|p| !p.is_end()) {
        let failed = Phase::Failed(failure());
        table.push((
            phase.clone(),
            Event::Failed(failure()),
            failed,
            vec![Persist, Report],
        ));
        table.push((phase.clone(), Event::Discarded, phase.clone(), vec![]));
        table.push((phase, Event::Restarted, Phase::Pending, vec![Report]));
    }
    table
}

#[test]
fn every_phase_meets_every_event() {
    let table = transitions();
    let mut listed = 0;
    for phase in phases() {
        for event in events() {
            let (after, effects) = step(in_phase(phase.clone()), event.clone());
            match table.iter().find(|(p, e, _, _)| *p == phase && *e == event) {
                Some((_, _, expected, wanted)) => {
                    listed += 1;
                    assert_eq!(
                        (&after.phase, &effects),
                        (expected, wanted),
                        "{phase:?} {event:?}"
                    );
                }
                None => {
                    assert_eq!(
                        after,
                        in_phase(phase.clone()),
                        "{phase:?} ignores {event:?}"
                    );
                    assert!(effects.is_empty(), "{phase:?} does nothing about {event:?}");
                }
            }
        }
    }
    assert_eq!(listed, table.len(), "every line of the table was met");
}

#[test]
fn a_restart_keeps_the_checkpoint_and_an_end_drops_it() {
    let (state, _) = step(in_phase(Phase::Verifying), Event::Restarted);
    assert_eq!(state.checkpoint, Some(checkpoint(5)));
    let (state, _) = step(in_phase(Phase::Finalizing), Event::Released);
    assert_eq!(state.checkpoint, None);
    let (state, _) = step(in_phase(Phase::Preparing), Event::Failed(failure()));
    assert_eq!(state.checkpoint, None);
}

#[test]
fn a_whole_life_in_a_row() {
    let script = [
        Event::Admitted,
        Event::Prepared,
        Event::FactsFound(facts()),
        Event::Checkpointed(checkpoint(1)),
        Event::Restarted,
        Event::Admitted,
        Event::Prepared,
        Event::Progressed(progress(9)),
        Event::Verifying,
        Event::Completed {
            facts: Some(facts()),
            progress: progress(1 << 30),
            digest: Some(digest()),
            object: None,
        },
        Event::Released,
    ];
    let end = script
        .into_iter()
        .fold(State::accepted(), |state, event| step(state, event).0);
    assert_eq!(end.phase, Phase::Succeeded);
    assert_eq!(end.progress, progress(1 << 30));
    assert_eq!(end.facts, Some(facts()));
    assert_eq!(end.digest, Some(digest()));
}

#[test]
fn an_upload_is_shown_until_its_parts_are_an_object_or_gone() {
    let fresh = State {
        phase: Phase::Transferring,
        ..State::accepted()
    };
    let (state, effects) = step(fresh, Event::Uploading("u".into()));
    assert_eq!(
        (state.upload.as_deref(), effects),
        (Some("u"), vec![Report])
    );
    let (state, effects) = step(state, Event::Uploading("u".into()));
    assert!(effects.is_empty(), "nothing new");
    let (state, _) = step(state, Event::Checkpointed(checkpoint(1)));

    let (restarted, _) = step(state.clone(), Event::Restarted);
    assert_eq!(restarted.upload.as_deref(), Some("u"));
    let (failed, _) = step(state.clone(), Event::Failed(failure()));
    assert_eq!(
        failed.upload.as_deref(),
        Some("u"),
        "its parts may be there"
    );
    let (discarded, effects) = step(state.clone(), Event::Discarded);
    assert_eq!((&discarded.upload, &discarded.checkpoint), (&None, &None));
    assert!(effects.is_empty());
    let (failed, _) = step(discarded, Event::Failed(failure()));
    assert_eq!(failed.upload, None);
    let completed = Event::Completed {
        facts: None,
        progress: progress(1 << 30),
        digest: None,
        object: Some(object()),
    };
    let (done, _) = step(state, completed);
    let (done, _) = step(done, Event::Released);
    assert_eq!((done.upload, done.object), (None, Some(object())));
}

proptest! {
    #[test]
    fn ends_are_final_and_the_journal_comes_first(script in prop::collection::vec(0usize..12, 0..40)) {
        let mut state = State::accepted();
        for index in script {
            let before = state.clone();
            let (after, effects) = step(state, events()[index].clone());
            if before.phase.is_end() {
                prop_assert_eq!(&after, &before);
            }
            if after.phase.is_end() && !before.phase.is_end() {
                prop_assert_eq!(effects.first(), Some(&Persist));
            }
            if let Some(at) = effects.iter().position(|e| *e == Persist) {
                prop_assert_eq!(at, 0);
            }
            state = after;
        }
    }
}
