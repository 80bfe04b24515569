//! The coordinator's executable.

use std::process::ExitCode;

use clap::Parser;
use hypercloud_coordinator::{config::Config, wiring};

#[tokio::main]
async fn main() -> ExitCode {
    let config = Config::parse();
    wiring::log(config.log_format);
    match wiring::run(config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "coordinator failed");
            ExitCode::FAILURE
        }
    }
}
