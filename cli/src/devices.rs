//! `devices`: what block devices this node has, or a record of one, and why
//! each is or is not free.

mod show;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use hypercloud_api::quantity;
use hypercloud_inventory::rook::{Selector, choose, storage};
use hypercloud_inventory::{Inventory, Policy, Prober, SignatureSource, Tree, classify, walk};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;

/// List the node's block devices, each with every reason why it is not
/// available
///
/// Exit codes: 0 done, 2 usage, 4 there are no devices to read.
#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    /// Read the record of a node instead: a folder with its sys, proc and
    /// run/udev
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// How to show them; `rook` is spec.storage of a CephCluster
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Only devices of at least this size, such as 100Gi
    #[arg(long, value_name = "SIZE", value_parser = size)]
    min_size: Option<u64>,
    /// Only devices that turn, or with `false` that do not
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    rotational: Option<bool>,
    /// Only devices with this in their model, in either case
    #[arg(long, value_name = "TEXT")]
    model: Option<String>,
    /// The node's label kubernetes.io/hostname, where it is not the kernel's
    /// host name
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A line for each device
    #[default]
    Table,
    /// The same with what identifies it
    Wide,
    /// Everything, for programs
    Json,
    /// Everything, for programs and people
    Yaml,
    /// The available devices for Rook
    Rook,
}

/// Bytes of a size as Kubernetes writes it.
fn size(text: &str) -> Result<u64, quantity::QuantityError> {
    quantity::bytes(&Quantity(text.to_owned()))
}

const UNREADABLE: u8 = 4;

pub(crate) fn run(arguments: DevicesArguments) -> ExitCode {
    match carry_out(arguments) {
        Ok(text) => {
            show::print(&text);
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(UNREADABLE)
        }
    }
}

fn carry_out(arguments: DevicesArguments) -> Result<String, String> {
    let tree = match arguments.root {
        Some(root) if root != Path::new("/") => Tree::recorded(root),
        _ => Tree::live(),
    };
    let prober = Prober::new(SignatureSource::Device);
    let snapshot =
        walk(&tree, &prober).map_err(|error| match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        })?;
    let mut inventory = classify(&snapshot, &Policy::default());
    if let Some(hostname) = arguments.hostname {
        inventory.hostname = Some(hostname);
    }
    let selector = Selector {
        min_size: arguments.min_size,
        rotational: arguments.rotational,
        model: arguments.model,
    };
    if arguments.output == Output::Rook {
        return for_rook(&inventory, &selector);
    }
    inventory.devices.retain(|device| selector.wants(device));
    match arguments.output {
        Output::Table => Ok(show::table(&inventory)),
        Output::Wide => Ok(show::wide(&inventory)),
        Output::Json => json(&inventory),
        Output::Yaml | Output::Rook => yaml(&inventory),
    }
}

/// What is available and still left out is said on standard error.
fn for_rook(inventory: &Inventory, selector: &Selector) -> Result<String, String> {
    // The kubelet makes its label of the host name in lower case.
    let hostname = inventory
        .hostname
        .as_ref()
        .map(|name| name.trim().to_lowercase())
        .ok_or("the node's name is not known; say it with --hostname")?;
    let choice = choose(inventory, &hostname, selector);
    for refusal in &choice.refused {
        eprintln!("left out: {refusal}");
    }
    if choice.node.devices.is_empty() {
        eprintln!("no device is available; `hcs devices` says why");
    }
    yaml(&Spec {
        storage: storage([choice.node]),
    })
}

/// What goes below a CephCluster's `spec`.
#[derive(Serialize)]
struct Spec {
    storage: hypercloud_inventory::rook::Storage,
}

fn json<T: Serialize>(value: &T) -> Result<String, String> {
    serde_json::to_string_pretty(value).map_err(|error| error.to_string())
}

fn yaml<T: Serialize>(value: &T) -> Result<String, String> {
    serde_yaml::to_string(value).map_err(|error| error.to_string())
}
