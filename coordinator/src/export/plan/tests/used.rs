//! Volumes that come to be used while they are read.

use super::*;

#[test]
fn a_pod_stops_what_is_read_from_its_volume_and_nothing_else() {
    let mut seen = exporting(ExportReadFrom::Volume);
    use_volume(&mut seen, 0);
    let step = plan(&seen, at(0));
    assert_eq!(reason(&step), "VolumeInUse");
    let Verdict::StartOver { upload_id, .. } = &step.verdict else {
        panic!("{step:?}");
    };
    assert_eq!(upload_id.as_deref(), Some("upload"));
    // The upload is stopped and removed before it is begun anew.
    told(&mut seen, step.verdict);
    seen.classes = vec![class("a")];
    let step = plan(&seen, at(0));
    let stop = |action: &Action| {
        matches!(
            action,
            Action::Work(work::Action::CancelJob { .. } | work::Action::DeleteHolder { .. })
        )
    };
    assert!(
        step.actions.len() == 2 && step.actions.iter().all(stop),
        "{step:?}"
    );
    seen.agents.jobs.clear();
    seen.holders.clear();
    let step = plan(&seen, at(0));
    assert!(
        matches!(step.actions.as_slice(), [Action::Check(_), Action::Discard { upload_id, .. }] if upload_id == "upload"),
        "{step:?}"
    );
    told(&mut seen, Verdict::Discarded);
    assert!(matches!(
        plan(&seen, at(0)).verdict,
        Verdict::Accepted { .. }
    ));

    let mut seen = exporting(ExportReadFrom::Snapshot);
    seen.restored = Some(RestoredSeen {
        volume_name: Some("pv2".into()),
        ..RestoredSeen::default()
    });
    use_volume(&mut seen, 0);
    assert!(matches!(
        plan(&seen, at(0)).verdict,
        Verdict::Exporting { .. }
    ));
}

#[test]
fn what_was_read_under_a_pod_is_made_anew_over_it() {
    for (since, anew) in [(None, false), (Some(9), false), (Some(0), true)] {
        let mut seen = exporting(ExportReadFrom::Volume);
        ends(&mut seen, JobState::Succeeded);
        if let Some(since) = since {
            use_volume(&mut seen, since);
        }
        let step = plan(&seen, at(10));
        match anew {
            true => assert_eq!(reason(&step), "VolumeInUse"),
            false => assert!(matches!(step.verdict, Verdict::Completed(_)), "{step:?}"),
        }
    }
}

#[test]
fn what_nobody_watched_is_read_anew() {
    let mut seen = exporting(ExportReadFrom::Volume);
    seen.target.as_mut().unwrap().mode = hypercloud_api::VolumeMode::Block;
    let looked = matches!(plan(&seen, at(5)).verdict, Verdict::Exporting { .. });
    assert!(looked);
    assert_eq!(reason(&plan(&seen, at(20))), "VolumeUnwatched");
    let mut succeeded = seen.clone();
    ends(&mut succeeded, JobState::Succeeded);
    assert_eq!(reason(&plan(&succeeded, at(20))), "VolumeUnwatched");
    seen.target.as_mut().unwrap().mode = hypercloud_api::VolumeMode::Filesystem;
    assert!(matches!(
        plan(&seen, at(20)).verdict,
        Verdict::Exporting { .. }
    ));
}

#[test]
fn after_a_pod_came_a_snapshot_is_read_though_it_is_gone() {
    let mut seen = exporting(ExportReadFrom::Volume);
    use_volume(&mut seen, 0);
    let step = plan(&seen, at(0));
    told(&mut seen, step.verdict);
    told(&mut seen, Verdict::Discarded);
    seen.agents.jobs.clear();
    seen.holders.clear();
    seen.users.clear();
    let chosen = |seen: &Observation| match plan(seen, at(1)).verdict {
        Verdict::Accepted { read_from, .. } => read_from,
        other => panic!("{other:?}"),
    };
    assert_eq!(chosen(&seen), ExportReadFrom::Volume);
    seen.classes = vec![class("a")];
    assert_eq!(chosen(&seen), ExportReadFrom::Snapshot);
    accept(&mut seen, ExportReadFrom::Snapshot);
    let class = "a".to_owned();
    assert_eq!(
        plan(&seen, at(1)).actions,
        [Action::CreateSnapshot { class }]
    );
}

#[test]
fn a_pod_that_came_and_went_is_noticed() {
    let mut seen = exporting(ExportReadFrom::Volume);
    seen.passed = vec!["job".into()];
    seen.used_since = Some(at(0));
    let step = plan(&seen, at(10));
    assert_eq!(reason(&step), "VolumeInUse");
    ends(&mut seen, JobState::Succeeded);
    let step = plan(&seen, at(10));
    assert_eq!(reason(&step), "VolumeInUse");
}

#[test]
fn an_upload_that_is_being_completed_is_not_stopped() {
    let mut seen = exporting(ExportReadFrom::Volume);
    use_volume(&mut seen, 0);
    let step = plan(&seen, at(0));
    told(&mut seen, step.verdict);
    seen.agents.jobs[0].job.state = JobState::Verifying;
    let step = plan(&seen, at(0));
    assert!(
        step.actions.is_empty() && step.verdict == Verdict::Keep,
        "{step:?}"
    );
    ends(&mut seen, JobState::Succeeded);
    assert_eq!(plan(&seen, at(0)).actions.len(), 2);
}
