//! `rollback`: asks the cluster to put a disk back to a snapshot, and follows
//! how it goes.

mod course;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::Args;
use hypercloud_api::{VirtualMachineVolumeRollback, VirtualMachineVolumeRollbackSpec};

use crate::arguments::Shown;
use crate::cluster::{self, ClusterArguments, Waiting, generated_name, object_name};

/// Put a disk back, in place, to what a snapshot of it holds
///
/// Nothing may use the disk meanwhile: stop its virtual machine first. Only
/// the blocks that differ are written; the claim keeps its name. Stopping this
/// command does not stop the rollback.
///
/// Exit codes: 0 done, 1 stopped, 2 usage, 3 the rollback is refused and
/// nothing was written, 4 it failed, or was not done in time.
#[derive(Debug, Args)]
pub(crate) struct RollbackArguments {
    /// The disk: the name of its PersistentVolumeClaim
    #[arg(value_parser = object_name)]
    disk: String,
    /// The VolumeSnapshot of that disk to go back to
    #[arg(long = "to", value_name = "SNAPSHOT", value_parser = object_name)]
    snapshot: String,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    shown: Shown,
}

/// Does what the arguments say.
pub(crate) async fn run(arguments: RollbackArguments) -> ExitCode {
    let rollback = resource(arguments.disk, arguments.snapshot);
    let format = arguments.shown.output;
    let cluster = arguments.cluster.connect();
    cluster::run(cluster, rollback, &arguments.waiting, format).await
}

fn resource(disk: String, snapshot: String) -> VirtualMachineVolumeRollback {
    let generated = generated_name(&disk);
    let spec = VirtualMachineVolumeRollbackSpec {
        pvc_name: disk,
        volume_snapshot_name: snapshot,
    };
    let mut rollback = VirtualMachineVolumeRollback::new("", spec);
    rollback.metadata.name = None;
    rollback.metadata.generate_name = Some(generated);
    rollback
}
