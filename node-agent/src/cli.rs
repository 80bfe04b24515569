//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::{agent, health, hold, logs};

/// Runs transfers beside the volumes of one node.
#[derive(Debug, Parser)]
#[command(name = "node-agent", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the coordinator and run jobs until SIGTERM.
    Serve(ServeOptions),
    /// Do nothing until SIGTERM: keeps a claim attached to the node.
    Hold,
    /// Ask the agent of this machine whether it is alive.
    Healthy(HealthAddress),
}

/// How the agent works. Every option has an environment variable.
#[derive(Debug, Clone, Args)]
pub struct ServeOptions {
    /// Name of the Kubernetes node.
    #[arg(long, env = "NODE_NAME")]
    pub node_name: String,
    /// Address of the gRPC server.
    #[arg(long, env = "LISTEN", default_value = "0.0.0.0:7443")]
    pub listen: SocketAddr,
    /// Where the agent answers probes.
    #[command(flatten)]
    pub health: HealthAddress,
    /// Kubelet's directory, at the path where kubelet itself has it.
    #[arg(long, env = "KUBELET_ROOT", default_value = "/var/lib/kubelet")]
    pub kubelet_root: PathBuf,
    /// Where the node's own sys, proc, run/udev and dev are: in a container,
    /// the folder below which they are mounted.
    #[arg(long, env = "HOST_ROOT", default_value = "/")]
    pub host_root: PathBuf,
    /// Where the job journal is kept.
    #[arg(
        long,
        env = "STATE_DIR",
        default_value = "/var/lib/hypercloud-storage/node-agent"
    )]
    pub state_dir: PathBuf,
    /// Directory with ca.crt, tls.crt and tls.key.
    #[arg(long, env = "TLS_DIR", default_value = "/etc/hypercloud-storage/tls")]
    pub tls_dir: PathBuf,
    /// Let sources be at loopback, link-local and metadata addresses too.
    #[arg(long, env = "ALLOW_ANY_SOURCE_ADDRESS")]
    pub allow_any_source_address: bool,
    /// Memory for image data of all jobs together; takes Ki, Mi and Gi.
    #[arg(long, env = "MEMORY_BUDGET", default_value = "128Mi", value_parser = bytes)]
    pub memory_budget: usize,
    /// Jobs that move bytes at the same time.
    #[arg(
        long,
        env = "CONCURRENT_JOBS",
        default_value = "2",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub concurrent_jobs: u16,
}

/// Where the agent answers probes.
#[derive(Debug, Clone, Args)]
pub struct HealthAddress {
    /// Address of the plain server for probes and metrics.
    #[arg(long, env = "HEALTH_LISTEN", default_value = "0.0.0.0:8081")]
    pub health_listen: SocketAddr,
}

impl Cli {
    /// Does what the command line says.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Serve(options) => {
                logs::init();
                agent::run(options)
            }
            Command::Hold => Ok(hold::run()?),
            Command::Healthy(address) => Ok(health::ask(address.health_listen)?),
        }
    }
}

/// A number of bytes as Kubernetes writes it.
fn bytes(text: &str) -> Result<usize, String> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("", 0)];
    let (digits, shift) = units
        .iter()
        .find_map(|(unit, shift)| text.strip_suffix(unit).map(|digits| (digits, *shift)))
        .unwrap_or((text, 0));
    let number: usize = digits.parse().map_err(|e| format!("{e}"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "number too large".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bytes_are_read_as_kubernetes_writes_them() {
        assert_eq!(bytes("128Mi"), Ok(128 << 20));
        assert_eq!(bytes("7"), Ok(7));
        assert_eq!(bytes("2Gi"), Ok(2 << 30));
        for text in [
            "",
            "Mi",
            "-1",
            "1.5Gi",
            "99999999999999999999",
            "18014398509481984Ki",
        ] {
            assert!(bytes(text).is_err(), "{text} was accepted");
        }
    }
}
