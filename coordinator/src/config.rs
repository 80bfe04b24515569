//! What the operator sets, as flags or environment variables.

use std::net::SocketAddr;

use clap::{Parser, ValueEnum};

use crate::image::size::Overhead;

/// Reconciles HyperCloud Storage's custom resources.
#[derive(Clone, Debug, Parser)]
#[command(name = "coordinator", version)]
pub struct Config {
    /// Namespace of the coordinator, the agents and their Secrets.
    #[arg(long, env = "POD_NAMESPACE")]
    pub namespace: String,

    /// Name by which this process is known in the Lease and in Events.
    #[arg(long, env = "POD_NAME")]
    pub identity: String,

    /// Container image with the `hold` command.
    #[arg(long, env = "HOLDER_IMAGE")]
    pub holder_image: String,

    /// Share of a file system that is not there for the disk.
    #[arg(long, env = "FILESYSTEM_OVERHEAD", default_value = "0.055", value_parser = overhead)]
    pub filesystem_overhead: Overhead,

    /// Port of the agents.
    #[arg(long, env = "AGENT_PORT", default_value_t = 7443)]
    pub agent_port: u16,

    /// Address of the health and metrics endpoints.
    #[arg(long, env = "HEALTH_ADDRESS", default_value = "[::]:8080")]
    pub health_address: SocketAddr,

    /// How the log is written.
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value_t = LogFormat::Json)]
    pub log_format: LogFormat,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

fn overhead(text: &str) -> Result<Overhead, String> {
    text.parse()
        .ok()
        .and_then(Overhead::from_fraction)
        .ok_or_else(|| "not a fraction of at least 0 and below 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read() {
        let base = [
            "coordinator",
            "--namespace=n",
            "--identity=i",
            "--holder-image=h",
        ];
        let config = Config::try_parse_from(base).unwrap();
        assert_eq!(config.filesystem_overhead, Overhead::DEFAULT);
        assert_eq!(config.agent_port, 7443);
        let bad = base.into_iter().chain(["--filesystem-overhead=0.7"]);
        assert!(Config::try_parse_from(bad).is_err());
    }
}
