//! `devices clean`: has the cluster destroy what a device holds, where that is
//! asked for in so many words.

mod course;
mod meant;

use std::process::ExitCode;

use clap::Args;
use hypercloud_api::{
    CLEANUP_CONFIRMATION, InventoryState, NodeDeviceCleanup, NodeDeviceCleanupSpec,
    NodeDeviceInventory,
};
use k8s_openapi::jiff::Timestamp;
use kube::api::Api;
use kube::{Client, Error as KubeError};

use self::meant::Meant;
use super::INVENTORIES;
use super::nodes::no_inventory;
use crate::arguments::{Format, Shown};
use crate::cluster::{self, ContextArguments, Failure, Waiting, generated_name, object_name};
use crate::report::print;

/// Destroy everything that a node's device holds, so that it is available
///
/// Signatures, partition tables and labels of LVM and BlueStore are removed at
/// both ends of the device, then all of it is discarded. Refused for what is
/// mounted, held or used. Without --yes-really-destroy-data nothing is done:
/// it says what would be. Stopping this command does not stop the cleaning.
///
/// Exit codes: 0 done, 1 stopped, 2 usage, or not confirmed, 3 the cleaning is
/// refused, or there is no such device, 4 it failed, or was not done in time.
#[derive(Debug, Args)]
pub(crate) struct CleanArguments {
    /// Node that has the device
    #[arg(value_parser = object_name)]
    node: String,
    /// The device: a link that lasts, in /dev/disk/by-id, or a name such as
    /// /dev/sdb
    #[arg(value_parser = device_name)]
    device: String,
    /// Everything on the device is to be destroyed, and that is meant
    #[arg(long = CLEANUP_CONFIRMATION)]
    confirmed: bool,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    context: ContextArguments,
    #[command(flatten)]
    shown: Shown,
}

/// Keeps Velero from putting it into a backup.
const BACKUP_LABEL: &str = "velero.io/exclude-from-backup";
/// Not confirmed.
const USAGE: u8 = 2;
/// There is no such node, or no such device.
const UNKNOWN: u8 = 3;

/// Does what the arguments say.
pub(super) async fn run(arguments: CleanArguments) -> ExitCode {
    let format = arguments.shown.output;
    if !arguments.confirmed {
        return explain(arguments, format).await;
    }
    let client = match arguments.context.client().await {
        Ok(client) => client,
        Err(failure) => {
            let (reason, message) = (failure.reason(), failure.to_string());
            return say(format, failure.exit_code(), reason, &message);
        }
    };
    let device = lasting(&client, &arguments.node, &arguments.device).await;
    let cleanup = resource(&arguments.node, &device);
    let api = std::future::ready(Ok(Api::all(client)));
    cluster::run(api, cleanup, &arguments.waiting, format).await
}

pub(super) fn resource(node: &str, device: &str) -> NodeDeviceCleanup {
    let spec = NodeDeviceCleanupSpec {
        node_name: node.to_owned(),
        device: device.to_owned(),
        confirmation: CLEANUP_CONFIRMATION.to_owned(),
    };
    let mut cleanup = NodeDeviceCleanup::new("", spec);
    cleanup.metadata.name = None;
    cleanup.metadata.generate_name = Some(generated_name(node));
    // What is made again is carried out again.
    let unsaved = (BACKUP_LABEL.to_owned(), "true".to_owned());
    cleanup.metadata.labels = Some([unsaved].into());
    cleanup
}

/// The link by which the device that is called `name` now can be told from
/// others later, where it has one and that can be seen. The coordinator is the
/// judge of what `name` is otherwise.
async fn lasting(client: &Client, node: &str, name: &str) -> String {
    let found = inventory(client.clone(), node).await.ok().flatten();
    let is_current = |inventory: &NodeDeviceInventory| {
        let status = inventory.status.as_ref();
        status.and_then(|status| status.state) == Some(InventoryState::Current)
    };
    let meant = found
        .filter(is_current)
        .and_then(|inventory| Meant::of(&inventory, name, String::new(), Timestamp::now()).ok());
    meant.map_or_else(|| name.to_owned(), |meant| meant.name().to_owned())
}

/// Says what would be destroyed.
async fn explain(arguments: CleanArguments, format: Format) -> ExitCode {
    let CleanArguments { node, device, .. } = &arguments;
    let (node, device) = (node.clone(), device.clone());
    let cluster = arguments.context.words();
    let client = arguments.context.client().await;
    let found = match client {
        Ok(client) => inventory(client, &node).await,
        Err(failure) => Err(failure),
    };
    let found = match found {
        Ok(found) => found,
        Err(failure) => {
            let (reason, message) = (failure.reason(), failure.to_string());
            return say(format, failure.exit_code(), reason, &message);
        }
    };
    let Some(inventory) = found else {
        return say(format, UNKNOWN, "NodeNotFound", &no_inventory(&node));
    };
    match Meant::of(&inventory, &device, cluster, Timestamp::now()) {
        Ok(meant) => say(format, USAGE, "NotConfirmed", &meant.to_string()),
        Err(message) => say(format, UNKNOWN, "DeviceNotThere", &message),
    }
}

async fn inventory(client: Client, node: &str) -> Result<Option<NodeDeviceInventory>, Failure> {
    let api: Api<NodeDeviceInventory> = Api::all(client);
    match api.get(node).await {
        Ok(found) => Ok(Some(found)),
        // Of this kind there is none of the name, or there is no such kind.
        Err(KubeError::Api(status)) if status.is_not_found() && status.message.contains('"') => {
            Ok(None)
        }
        Err(error) => Err(Failure::read(INVENTORIES, error)),
    }
}

/// Says why nothing is done.
fn say(format: Format, code: u8, reason: &str, message: &str) -> ExitCode {
    match format {
        Format::Text => eprintln!("error: {message} ({reason})"),
        Format::Json => {
            let event =
                serde_json::json!({"event": "failed", "reason": reason, "message": message});
            print(&event.to_string());
        }
    }
    ExitCode::from(code)
}

/// The name of a device, or a link to it.
fn device_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 4096 || text.chars().any(char::is_control) {
        return Err(
            "a device is named like /dev/sdb or /dev/disk/by-id/wwn-0x5000c500a1".to_owned(),
        );
    }
    Ok(text.to_owned())
}
