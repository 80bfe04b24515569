//! The node agent's binary.

use std::process::ExitCode;

use clap::Parser;
use node_agent::cli::Cli;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("node-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}
