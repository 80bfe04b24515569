//! `devices`: what block devices a node has, and why each is or is not free:
//! this node, a record of one, or the node of an agent that is asked.

mod agent;
mod sheet;
mod table;
mod wanted;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use hypercloud_inventory::rook::{self, Selector, Storage, choose};
use hypercloud_inventory::{Inventory, Policy, Prober, SignatureSource, Tree, classify, walk};

use self::agent::{Agent, AgentFailure};
pub(crate) use self::sheet::{Page, Sheet, Shown};
pub(crate) use self::table::{Group, NodeCells, plain};
pub(crate) use self::wanted::{Output, Wanted};
use crate::stop::stop_asked;

/// List the node's block devices, each with every reason why it is not
/// available
///
/// Exit codes: 0 done, 1 stopped, 2 usage, 4 there are no devices to read, or
/// the agent does not tell them.
#[derive(Debug, Args)]
pub(crate) struct DevicesArguments {
    /// Read the record of a node instead: a folder with its sys, proc and
    /// run/udev
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Ask the agent that listens there instead, such as 127.0.0.1:7443
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "tls",
        conflicts_with = "root"
    )]
    agent: Option<String>,
    /// What lets in at the agent: a folder with tls.crt, tls.key and ca.crt of
    /// the coordinator's Secret
    #[arg(long, value_name = "DIR", requires = "agent")]
    tls: Option<PathBuf>,
    /// Go on, and show what changes
    #[arg(short, long, requires = "agent")]
    watch: bool,
    /// How to show them; `rook` is spec.storage of a CephCluster
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    wanted: Wanted,
    /// The node's label kubernetes.io/hostname, where it is not the kernel's
    /// host name
    #[arg(long, value_name = "NAME")]
    hostname: Option<String>,
}

const STOPPED: u8 = 1;
const USAGE: u8 = 2;
const UNREADABLE: u8 = 4;

/// Why devices are not shown, and the exit code of that.
struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn unreadable(message: String) -> Self {
        Self {
            code: UNREADABLE,
            message,
        }
    }
}

impl From<AgentFailure> for Failure {
    fn from(failure: AgentFailure) -> Self {
        let code = if failure.is_usage() {
            USAGE
        } else {
            UNREADABLE
        };
        Self {
            code,
            message: failure.to_string(),
        }
    }
}

/// Does what the arguments say.
pub(crate) async fn run(arguments: DevicesArguments) -> ExitCode {
    let result = tokio::select! {
        // A walk here does not give way: it ends as the signal does by itself.
        biased;
        result = carry_out(&arguments) => result,
        () = stop_asked() => return ExitCode::from(STOPPED),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.message);
            ExitCode::from(failure.code)
        }
    }
}

async fn carry_out(arguments: &DevicesArguments) -> Result<(), Failure> {
    let mut sheet = Sheet::new(arguments.output, arguments.watch);
    let selector = arguments.wanted.selector();
    let mut show = |inventory: Inventory| -> Result<(), Failure> {
        let node = OneNode::new(inventory, arguments.hostname.clone(), &selector);
        let page = sheet.page(&node).map_err(Failure::unreadable)?;
        page.print();
        Ok(())
    };
    let (Some(address), Some(tls)) = (&arguments.agent, &arguments.tls) else {
        return show(looked(arguments.root.as_deref()).map_err(Failure::unreadable)?);
    };
    let mut agent = Agent::connect(address, tls).await?;
    loop {
        show(agent.look().await?)?;
        if !arguments.watch {
            return Ok(());
        }
    }
}

/// This node's devices, or those of a record.
fn looked(root: Option<&Path>) -> Result<Inventory, String> {
    let tree = match root {
        Some(root) if root != Path::new("/") => Tree::recorded(root),
        _ => Tree::live(),
    };
    let prober = Prober::new(SignatureSource::Device);
    let snapshot =
        walk(&tree, &prober).map_err(|error| match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        })?;
    Ok(classify(&snapshot, &Policy::default()))
}

/// One node's devices, of which some are wanted.
struct OneNode {
    all: Inventory,
    wanted: Inventory,
    selector: Selector,
}

impl OneNode {
    fn new(mut all: Inventory, hostname: Option<String>, selector: &Selector) -> Self {
        if hostname.is_some() {
            all.hostname = hostname;
        }
        let mut wanted = all.clone();
        wanted.devices.retain(|device| selector.wants(device));
        Self {
            all,
            wanted,
            selector: selector.clone(),
        }
    }
}

impl Shown for OneNode {
    type Document = Inventory;

    fn groups(&self) -> Vec<Group<'_>> {
        vec![Group {
            node: None,
            devices: self.wanted.devices.iter().collect(),
        }]
    }

    fn document(&self) -> &Inventory {
        &self.wanted
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn storage(&self) -> Result<(Storage, Vec<String>), String> {
        // The kubelet makes its label of the host name in lower case.
        let hostname = self.all.hostname.as_ref();
        let hostname = hostname
            .map(|name| name.trim().to_lowercase())
            .ok_or("the node's name is not known; say it with --hostname")?;
        let choice = choose(&self.all, &hostname, &self.selector);
        let refused = choice.refused.iter();
        let mut notes: Vec<String> = refused
            .map(|refusal| format!("left out: {refusal}"))
            .collect();
        if choice.node.devices.is_empty() {
            notes.push("no device is available; `hcs devices` says why".to_owned());
        }
        Ok((rook::storage([choice.node]), notes))
    }
}
