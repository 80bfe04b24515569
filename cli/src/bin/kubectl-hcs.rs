//! The command line as a kubectl plugin: `kubectl hcs`.

use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    // Nothing is logged unless RUST_LOG asks for it: results go to standard
    // output, errors to standard error, each once.
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    hypercloud_cli::run_plugin(std::env::args_os())
}
