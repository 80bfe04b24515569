//! Arbitrary worlds.

use proptest::prelude::*;

use super::*;
use crate::agents::Progress;

prop_compose! {
    /// Any world, likely or not.
    fn any_world()(
        phase in 0usize..7,
        read_from in prop::option::of(any::<bool>()),
        attempt in 0i64..3,
        upload in prop::option::of((0u32..3, any::<bool>())),
        object in any::<bool>(),
        jobs in prop::collection::btree_map(0u32..3, (0u8..4, any::<bool>()), 0..3),
        holders in prop::collection::btree_map(0u32..3, (any::<bool>(), any::<bool>()), 0..3),
        target in prop::option::of((any::<bool>(), any::<bool>())),
        snapshot in prop::option::of((any::<bool>(), any::<bool>(), any::<bool>())),
        restored in prop::option::of((any::<bool>(), any::<bool>())),
        used in any::<bool>(),
        (deleted, finalizer, agents, rollback) in any::<(bool, bool, bool, bool)>(),
    ) -> Observation {
        let mut seen = fresh();
        let job_id = |n: u32| names::job_id("uid", n);
        let phases = [ExportPhase::Pending, ExportPhase::Preparing, ExportPhase::Exporting,
            ExportPhase::Succeeded, ExportPhase::Failed, ExportPhase::Deleting];
        seen.export.status = Some(hypercloud_api::VirtualMachineVolumeExportStatus {
            phase: phases.get(phase).copied(),
            attempt: Some(attempt),
            pvc_uid: Some("claim".into()),
            read_from: read_from.map(|volume| match volume {
                true => ExportReadFrom::Volume,
                false => ExportReadFrom::Snapshot,
            }),
            upload: upload.map(|(n, id)| hypercloud_api::UploadStatus {
                job_id: job_id(n),
                node_name: "n1".into(),
                holder_uid: Some("pod".into()),
                upload_id: id.then(|| "upload".into()),
                ..Default::default()
            }),
            object: object.then(Default::default),
            ..Default::default()
        });
        seen.agents.jobs = jobs.into_iter().map(|(n, (state, waits))| JobSeen {
            node: "n1".into(),
            job: Job {
                id: job_id(n),
                state: match state {
                    0 => JobState::Transferring,
                    1 => JobState::Succeeded,
                    2 => JobState::Failed(failure("Stalled", true)),
                    _ => JobState::Pending,
                },
                awaiting_access: waits,
                progress: Progress::default(),
                object: (state == 1).then(ExportedObject::default),
                ..Job::default()
            },
        }).collect();
        seen.holders = holders.into_iter().map(|(n, (holding, going))| HolderSeen {
            name: names::export_holder("uid", n),
            uid: "pod".into(),
            since: None,
            deleting_since: going.then(|| at(-10)),
            node: holding.then(|| "n1".into()),
            state: if holding { HolderState::Holding } else { HolderState::Waiting(None) },
        }).collect();
        seen.target = target.map(|(deleting, bound)| TargetSeen {
            uid: "claim".into(),
            deleting,
            volume_name: bound.then(|| "pv".into()),
            driver: Some("csi".into()),
            ..TargetSeen::default()
        });
        seen.snapshot = snapshot.map(|(ours, ready, going)| OwnSnapshot {
            ours,
            deleting_since: going.then(|| at(-10)),
            seen: SnapshotSeen { uid: "s".into(), ready, ..SnapshotSeen::default() },
        });
        seen.restored = restored.map(|(bound, going)| RestoredSeen {
            uid: "r".into(),
            deleting_since: going.then(|| at(-10)),
            volume_name: bound.then(|| "pv2".into()),
            ..RestoredSeen::default()
        });
        if used { use_volume(&mut seen, -10); }
        if deleted { seen.export.metadata.deletion_timestamp = Some(Time(at(-5))); }
        if !finalizer { seen.export.metadata.finalizers = None; }
        if !agents { seen.agents.synced.clear(); }
        seen.rollback = rollback.then(|| "back".into());
        seen
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever was found: nothing is started without a finalizer, under a pod
    /// or without its volume; nothing of others is deleted; what is complete
    /// is said only of a job that succeeded.
    #[test]
    fn any_world_is_dealt_with(seen in any_world()) {
        let plan = plan(&seen, at(0));
        let deleted = seen.export.metadata.deletion_timestamp.is_some();
        for action in &plan.actions {
            match action {
                Action::Work(work::Action::StartJob { node, job }) => {
                    prop_assert!(seen.has_finalizer(names::FINALIZER) && !deleted);
                    prop_assert!(seen.agents.synced.contains(node));
                    prop_assert!(!job.job.volume.name.is_empty());
                    prop_assert!(seen.read_from() != Some(ExportReadFrom::Volume) || seen.users.is_empty());
                    let holder = seen.holders.iter().find(|holder| holder.name == seen.holder_name());
                    prop_assert_eq!(&holder.unwrap().state, &HolderState::Holding);
                }
                Action::DeleteSnapshot { .. } => prop_assert!(seen.snapshot.as_ref().unwrap().ours),
                Action::CreateSnapshot { .. } => {
                    prop_assert!(seen.snapshot.is_none() && seen.rollback.is_none() && !deleted);
                }
                Action::CreateRestored { .. } => {
                    prop_assert!(seen.snapshot.as_ref().unwrap().is_usable() && !deleted);
                }
                Action::RemoveFinalizer => {
                    prop_assert!(deleted && seen.upload_id().is_none());
                }
                _ => {}
            }
        }
        if let Verdict::Completed(job) = &plan.verdict {
            prop_assert!(job.state == JobState::Succeeded && job.object.is_some());
            prop_assert_eq!(&job.id, &seen.job_id());
        }
        if matches!(plan.verdict, Verdict::Succeeded { .. }) {
            prop_assert!(seen.is_complete());
        }
    }
}
