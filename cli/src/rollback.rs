//! `rollback`: asks the cluster to put a disk back to a snapshot, and follows
//! how it goes.
//!
//! The work is the coordinator's: this makes a `VirtualMachineVolumeRollback`
//! and tells what its status tells. Whoever stops following stops nothing.
//! Only the kubectl plug-in has it: it needs a cluster.

mod connect;
mod course;
mod failure;
mod follow;
mod show;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args};
use hypercloud_api::{VirtualMachineVolumeRollback, VirtualMachineVolumeRollbackSpec};
use kube::api::{Api, PostParams};

use self::connect::ClusterArguments;
use self::course::Done;
use self::failure::Failure;
use self::follow::follow;
use self::show::{Audience, Reporter, Screen};
use crate::arguments::Shown;
use crate::stop::stop_asked;

/// Name under which this writes to the cluster.
const FIELD_MANAGER: &str = "kubectl-hcs";
/// Longest part of a disk's name that a generated name keeps.
const MOST_OF_NAME: usize = 200;

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
    /// Wait until it is done
    #[arg(
        long,
        action = ArgAction::Set,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    wait: bool,
    /// Wait no longer than this, as 90s, 5m or 1h30m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    shown: Shown,
}

/// What is asked of the cluster.
struct Order {
    disk: String,
    snapshot: String,
    wait: bool,
    timeout: Option<Duration>,
}

/// Does what the arguments say.
pub(crate) async fn run(arguments: RollbackArguments) -> ExitCode {
    let mut reporter = Reporter::new(arguments.shown.output, Screen::of_process());
    let order = Order {
        disk: arguments.disk,
        snapshot: arguments.snapshot,
        wait: arguments.wait,
        timeout: arguments.timeout,
    };
    let result = match arguments.cluster.connect().await {
        Ok(api) => carry_out(&api, order, &mut reporter, stop_asked()).await,
        Err(failure) => Err(failure),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            reporter.failed(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Makes the rollback and follows it until it is over, `stop` is, or there is
/// no more time.
async fn carry_out(
    api: &Api<VirtualMachineVolumeRollback>,
    order: Order,
    audience: &mut impl Audience,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let Order {
        disk,
        snapshot,
        wait,
        timeout,
    } = order;
    let rollback = resource(disk, snapshot);
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let rollback = api
        .create(&parameters, &rollback)
        .await
        .map_err(Failure::create)?;
    let name = rollback.metadata.name.clone().unwrap_or_default();
    let namespace = rollback.metadata.namespace.clone().unwrap_or_default();
    audience.created(&namespace, &name);
    if !wait {
        return Ok(());
    }
    let limit = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let done: Done = tokio::select! {
        // Whoever saw that it began can stop.
        biased;
        () = stop => return Err(Failure::Stopped { namespace, name }),
        done = follow(api, rollback, audience) => done?,
        () = limit => {
            let timeout = timeout.unwrap_or_default();
            return Err(Failure::Timeout { namespace, name, timeout });
        }
    };
    audience.done(&done);
    Ok(())
}

fn resource(disk: String, snapshot: String) -> VirtualMachineVolumeRollback {
    // Cut where the name of an object may end.
    let start = disk.get(..MOST_OF_NAME).unwrap_or(&disk);
    let start = start.trim_end_matches(['-', '.']);
    let generated = format!("{start}-");
    let spec = VirtualMachineVolumeRollbackSpec {
        pvc_name: disk,
        volume_snapshot_name: snapshot,
    };
    let mut rollback = VirtualMachineVolumeRollback::new("", spec);
    rollback.metadata.name = None;
    rollback.metadata.generate_name = Some(generated);
    rollback
}

/// The name of a claim or a snapshot.
fn object_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = text.len() <= 253
        && text.chars().all(plain)
        && text.starts_with(edge)
        && text.ends_with(edge);
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("an object's name is of small letters, digits, - and .; give the name alone".to_owned())
    }
}

/// A duration as kubectl takes it.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a duration is written like 90s, 5m or 1h30m".to_owned();
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = rest.split_at(digits);
        let number: u32 = number.parse().map_err(|_| wrong())?;
        let (one, length) = match unit.as_bytes() {
            [b'm', b's', ..] => (Duration::from_millis(1), 2),
            [b's', ..] => (Duration::from_secs(1), 1),
            [b'm', ..] => (Duration::from_secs(60), 1),
            [b'h', ..] => (Duration::from_secs(3600), 1),
            _ => return Err(wrong()),
        };
        total = total.saturating_add(one.saturating_mul(number));
        rest = unit.get(length..).unwrap_or_default();
    }
    if total.is_zero() {
        return Err("leave the timeout out to wait without a limit".to_owned());
    }
    Ok(total)
}
