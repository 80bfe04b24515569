//! What can happen to an export, and how it has to end.

use hypercloud_api::{ExportPhase, ExportReadFrom};
use hypercloud_coordinator::export::observation::OwnSnapshot;

use crate::world::{NODES, World, class, failure};

/// What happens to the world at a second.
type Script = fn(&mut World, u32);
/// Whether the world is as it has to end.
type End = fn(&World) -> bool;

pub struct Scenario {
    pub name: &'static str,
    pub script: Script,
    pub end: End,
}

fn succeeded(world: &World) -> bool {
    world.phase() == Some(ExportPhase::Succeeded)
        && world.store.object == Some(true)
        && world.is_tidy()
}

fn failed(world: &World, reason: &str) -> bool {
    world.phase() == Some(ExportPhase::Failed) && world.reason() == reason && world.is_tidy()
}

fn absent(world: &World, reason: &str) -> bool {
    failed(world, reason) && world.store.object.is_none()
}

fn gone(world: &World) -> bool {
    world.export.is_none() && world.is_tidy()
}

fn waits(world: &World, reason: &str) -> bool {
    world.phase() == Some(ExportPhase::Pending) && world.reason() == reason && world.is_tidy()
}

fn status(world: &World) -> hypercloud_api::VirtualMachineVolumeExportStatus {
    let export = world.export.as_ref();
    export.and_then(|e| e.status.clone()).unwrap_or_default()
}

fn read_from(world: &World) -> Option<ExportReadFrom> {
    status(world).read_from
}

pub const SCENARIOS: [Scenario; 34] = [
    Scenario {
        name: "nothing happens",
        script: |_, _| {},
        end: |world| {
            succeeded(world)
                && status(world).attempt == Some(0)
                && read_from(world) == Some(ExportReadFrom::Volume)
        },
    },
    Scenario {
        name: "an address is asked for",
        script: |world, second| {
            if second == 0 {
                world.want_address();
            }
        },
        end: |world| succeeded(world) && world.signed && status(world).download_url.is_some(),
    },
    Scenario {
        name: "an address is asked for, and the Secret is gone for a while",
        script: |world, second| match second {
            0 => world.want_address(),
            5 => world.secret = None,
            1000 => world.secret = Some(1),
            _ => {}
        },
        end: |world| {
            let unsigned = world.reason() == "DownloadUrlMissing";
            succeeded(world) && unsigned != world.signed
        },
    },
    Scenario {
        name: "a pod uses the volume all the time",
        script: |world, second| {
            if second == 0 {
                world.use_volume("vm");
            }
        },
        end: |world| succeeded(world) && read_from(world) == Some(ExportReadFrom::Snapshot),
    },
    Scenario {
        name: "a pod comes in the middle and stays",
        script: |world, second| {
            if second == 4 {
                world.use_volume("vm");
            }
        },
        end: succeeded,
    },
    Scenario {
        name: "a pod comes in the middle, and there are no snapshots",
        script: |world, second| match second {
            0 => world.classes.clear(),
            4 => world.use_volume("vm"),
            100 => world.leave_volume(),
            _ => {}
        },
        end: succeeded,
    },
    Scenario {
        name: "a pod uses the volume, and there are no snapshots",
        script: |world, second| {
            if second == 0 {
                world.classes.clear();
                world.use_volume("vm");
            }
        },
        end: |world| waits(world, "VolumeInUse") && world.store.object.is_none(),
    },
    Scenario {
        name: "a pod uses the volume, and none of two classes is the default",
        script: |world, second| match second {
            0 => {
                world.classes.push(class("slow"));
                world.use_volume("vm");
            }
            50 => world.leave_volume(),
            _ => {}
        },
        end: |world| succeeded(world) && read_from(world) == Some(ExportReadFrom::Volume),
    },
    Scenario {
        name: "the snapshot fails until the pod is gone",
        script: |world, second| match second {
            0 => {
                world.snapshots_fail = true;
                world.use_volume("vm");
            }
            90 => world.leave_volume(),
            _ => {}
        },
        end: |world| succeeded(world) && read_from(world) == Some(ExportReadFrom::Volume),
    },
    Scenario {
        name: "the snapshot fails for a while",
        script: |world, second| match second {
            0 => {
                world.snapshots_fail = true;
                world.use_volume("vm");
            }
            90 => world.snapshots_fail = false,
            _ => {}
        },
        end: |world| succeeded(world) && read_from(world) == Some(ExportReadFrom::Snapshot),
    },
    Scenario {
        name: "somebody else's snapshot has the name",
        script: |world, second| match second {
            0 => {
                world.use_volume("vm");
                world.snapshot = Some(OwnSnapshot::default());
            }
            100 => world.snapshot = None,
            _ => {}
        },
        end: succeeded,
    },
    Scenario {
        name: "the snapshot is deleted meanwhile",
        script: |world, second| match second {
            0 => world.use_volume("vm"),
            3 => world.delete_snapshot(),
            _ => {}
        },
        end: succeeded,
    },
    Scenario {
        name: "the restored claim is deleted meanwhile",
        script: |world, second| match second {
            0 => world.use_volume("vm"),
            6 => {
                world.delete_restored();
                world.delete_pods();
            }
            _ => {}
        },
        end: succeeded,
    },
    Scenario {
        name: "the claim is deleted after its snapshot was taken",
        script: |world, second| match second {
            0 => world.use_volume("vm"),
            7 => {
                world.leave_volume();
                world.target.as_mut().unwrap().deleting = true;
            }
            _ => {}
        },
        end: |world| succeeded(world) || absent(world, "PvcGone"),
    },
    Scenario {
        name: "a rollback goes first",
        script: |world, second| match second {
            0 => world.rollback = Some("back".into()),
            60 => world.rollback = None,
            _ => {}
        },
        end: |world| succeeded(world) && status(world).attempt == Some(0),
    },
    Scenario {
        name: "a rollback comes before the snapshot is taken",
        script: |world, second| match second {
            0 => {
                world.use_volume("vm");
                world.snapshots_fail = true;
            }
            5 => world.rollback = Some("back".into()),
            60 => {
                world.rollback = None;
                world.snapshots_fail = false;
            }
            _ => {}
        },
        end: succeeded,
    },
    Scenario {
        name: "the claim comes late, and is bound later",
        script: |world, second| match second {
            0 => world.target = None,
            20 => {
                let mut target = crate::world::target();
                target.volume_name = None;
                world.target = Some(target);
            }
            40 => world.target = Some(crate::world::target()),
            _ => {}
        },
        end: succeeded,
    },
    Scenario {
        name: "the claim is the system's own",
        script: |world, second| {
            if second == 0 {
                world.export.as_mut().unwrap().spec.pvc_name = "vmim-ubuntu".into();
            }
        },
        end: |world| absent(world, "ClaimReserved"),
    },
    Scenario {
        name: "the claim is deleted meanwhile",
        script: |world, second| {
            if second == 5 {
                world.target.as_mut().unwrap().deleting = true;
            }
        },
        end: |world| absent(world, "PvcGone") || succeeded(world),
    },
    Scenario {
        name: "the specification makes no sense",
        script: |world, second| {
            if second == 0 {
                let spec = &mut world.export.as_mut().unwrap().spec;
                spec.object_store.endpoint = Some("s3.example".into());
            }
        },
        end: |world| absent(world, "ExportInvalid"),
    },
    Scenario {
        name: "the Secret comes late",
        script: |world, second| match second {
            0 => world.secret = None,
            90 => world.secret = Some(1),
            _ => {}
        },
        end: |world| succeeded(world) && status(world).attempt == Some(0),
    },
    Scenario {
        name: "the keys are wrong until they are changed",
        script: |world, second| match second {
            0 => world.store.accepts = 2,
            200 => world.secret = Some(2),
            _ => {}
        },
        end: |world| succeeded(world) && status(world).rejected_credentials.is_empty(),
    },
    Scenario {
        name: "the keys are changed in the middle",
        script: |world, second| match second {
            5 => world.store.accepts = 2,
            200 => world.secret = Some(2),
            _ => {}
        },
        end: succeeded,
    },
    Scenario {
        name: "an object is there",
        script: |world, second| {
            if second == 0 {
                world.store.object = Some(true);
                world.store.foreign = true;
            }
        },
        end: |world| failed(world, "ObjectExists"),
    },
    Scenario {
        name: "tries fail",
        script: |world, second| {
            if second == 0 {
                world.failures = vec![(50, failure("Stalled", true)); 4];
            }
        },
        end: |world| succeeded(world) && status(world).attempt == Some(4),
    },
    Scenario {
        name: "too many tries fail",
        script: |world, second| {
            if second == 0 {
                world.failures = vec![(50, failure("Stalled", true)); 40];
            }
        },
        end: |world| absent(world, "RetriesExhausted"),
    },
    Scenario {
        name: "the store is down in the middle",
        script: |world, second| match second {
            5 => world.store.down = true,
            60 => world.store.down = false,
            _ => {}
        },
        end: succeeded,
    },
    Scenario {
        name: "the agent starts again in the middle",
        script: |world, second| match second {
            5 => NODES.into_iter().for_each(|node| world.power(node, false)),
            9 => NODES.into_iter().for_each(|node| world.power(node, true)),
            _ => {}
        },
        end: |world| succeeded(world) && status(world).attempt == Some(0),
    },
    Scenario {
        name: "the node is lost for long",
        script: |world, second| {
            if second == 5
                && let Some(node) = world.job_node()
            {
                world.power(node, false);
            }
            if second == 2000 {
                NODES.into_iter().for_each(|node| world.power(node, true));
            }
        },
        end: succeeded,
    },
    Scenario {
        name: "the agents forget everything",
        script: |world, second| {
            if second == 6 {
                world.lose_journals();
            }
        },
        end: succeeded,
    },
    Scenario {
        name: "the holder is deleted",
        script: |world, second| {
            if second == 5 {
                world.delete_pods();
            }
        },
        end: succeeded,
    },
    Scenario {
        name: "the export is deleted in the middle",
        script: |world, second| {
            if second == 5 {
                world.delete_export();
            }
        },
        end: gone,
    },
    Scenario {
        name: "the export is deleted in the middle, and its agent is gone",
        script: |world, second| {
            if second == 5 {
                world.delete_export();
                if let Some(node) = world.job_node() {
                    world.power(node, false);
                }
            }
        },
        end: |world| gone(world) && world.store.uploads.is_empty(),
    },
    Scenario {
        name: "the export is deleted with its Secret, and its agent is gone",
        script: |world, second| {
            if second == 5 {
                world.delete_export();
                world.secret = None;
                if let Some(node) = world.job_node() {
                    world.power(node, false);
                }
            }
        },
        end: |world| world.export.is_none() && (world.left || world.is_tidy()),
    },
];
