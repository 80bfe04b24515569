//! `devices` of the kubectl plug-in: what block devices the cluster's nodes
//! have, as their NodeDeviceInventories tell, and cleaning one.

mod clean;
mod nodes;
mod read;

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hypercloud_api::NodeDeviceInventory;
use k8s_openapi::jiff::Timestamp;
use kube::api::Api;

use self::clean::CleanArguments;
use self::nodes::Nodes;
use self::read::Seen;
use crate::cluster::{ContextArguments, Failure, Work, object_name};
use crate::devices::{Output, Page, Sheet, Wanted};
use crate::stop::stop_asked;

/// List the block devices of the cluster's nodes, each with every reason why
/// it is not available; `clean` makes one available
///
/// Exit codes: 0 done, 1 stopped, 2 usage, 3 the cluster does not show them,
/// 4 it could not be asked, or a node that is named has no inventory.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct NodeDevicesArguments {
    #[command(subcommand)]
    order: Option<Order>,
    /// Only these nodes
    #[arg(value_name = "NODE", value_parser = object_name)]
    nodes: Vec<String>,
    /// Go on, and show what changes
    #[arg(short, long)]
    watch: bool,
    /// How to show them; `rook` is spec.storage of a CephCluster
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    context: ContextArguments,
}

#[derive(Debug, Subcommand)]
enum Order {
    Clean(CleanArguments),
}

/// What is read.
const INVENTORIES: &Work = &Work {
    word: "device inventories",
    kind: "NodeDeviceInventory",
    resource: "nodedeviceinventory",
    vanished: "it is made anew",
};

/// A node that is named and not there.
const UNKNOWN_NODE: u8 = 4;
const STOPPED: u8 = 1;

/// Why devices are not shown.
enum Ending {
    /// The cluster does not tell them.
    Failed(Failure),
    /// They cannot be shown in this form.
    Unshown(String),
}

impl From<Failure> for Ending {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Does what the arguments say.
pub(crate) async fn run(arguments: NodeDevicesArguments) -> ExitCode {
    if let Some(Order::Clean(arguments)) = arguments.order {
        return clean::run(arguments).await;
    }
    let ended = tokio::select! {
        ended = show(arguments) => ended,
        () = stop_asked() => return ExitCode::from(STOPPED),
    };
    match ended {
        Ok(code) => code,
        Err(Ending::Failed(failure)) => {
            eprintln!("error: {failure} ({})", failure.reason());
            ExitCode::from(failure.exit_code())
        }
        Err(Ending::Unshown(message)) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn show(arguments: NodeDevicesArguments) -> Result<ExitCode, Ending> {
    let api: Api<NodeDeviceInventory> = Api::all(arguments.context.client().await?);
    let selector = arguments.wanted.selector();
    let mut sheet = Sheet::new(arguments.output, arguments.watch);
    let mut page = |seen: &Seen| {
        let nodes = Nodes::of(
            seen.inventories(),
            &arguments.nodes,
            &selector,
            Timestamp::now(),
        );
        sheet.page(&nodes)
    };
    let mut seen = Seen::list(&api, &arguments.nodes).await?;
    page(&seen).map_err(Ending::Unshown)?.print();
    let missing = seen.missing(&arguments.nodes);
    for node in &missing {
        eprintln!("error: {}", nodes::no_inventory(node));
    }
    if !arguments.watch {
        return Ok(if missing.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(UNKNOWN_NODE)
        });
    }
    let mut unshown = None;
    let failure = seen
        .follow(&api, |seen| {
            match page(seen).map(|page| Page::print(&page)) {
                Ok(()) => true,
                Err(message) => {
                    unshown = Some(message);
                    false
                }
            }
        })
        .await;
    match (failure, unshown) {
        (_, Some(message)) => Err(Ending::Unshown(message)),
        (Err(failure), None) => Err(failure.into()),
        (Ok(()), None) => Ok(ExitCode::SUCCESS),
    }
}
