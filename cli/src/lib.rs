//! The command line of HyperCloud Storage, shared by its two binaries.
//!
//! `hcs` stands alone; `kubectl-hcs` is the same as a kubectl plugin, and works
//! with a cluster beside that. What is done is the engine's or the cluster's
//! business: here are the words, the exit codes and what is shown. Exit codes
//! are part of the interface: 0 done, 1 stopped, 2 usage, 3 the image or the
//! work of the cluster is refused, 4 the source or that work failed, 5 the
//! target failed.

mod arguments;
mod cluster;
mod devices;
mod export;
mod image;
mod journal;
mod node_devices;
mod report;
mod rollback;
mod source;
mod stop;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use self::arguments::{Arguments, Command, PluginArguments, PluginCommand};

/// Runs a command line of `hcs`; the first argument is the program's name.
///
/// It reaches no client of a cluster, so that none is linked into `hcs`.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match parsed::<Arguments>("hcs", arguments) {
        Ok(arguments) => carry_out(async move {
            match arguments.command {
                Command::Devices(arguments) => devices::run(*arguments).await,
                Command::Image(command) => image::run(*command).await,
            }
        }),
        Err(code) => code,
    }
}

/// Runs a command line of `kubectl-hcs`; the first argument is the program's
/// name.
#[must_use]
pub fn run_plugin(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match parsed::<PluginArguments>("kubectl-hcs", arguments) {
        Ok(arguments) => carry_out(async move {
            match arguments.command {
                PluginCommand::Image(command) => image::run(command).await,
                PluginCommand::Rollback(arguments) => rollback::run(arguments).await,
                PluginCommand::Export(arguments) => export::run(arguments).await,
                PluginCommand::Devices(arguments) => node_devices::run(*arguments).await,
            }
        }),
        Err(code) => code,
    }
}

fn parsed<A: Parser>(
    program: &'static str,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<A, ExitCode> {
    let parsed = A::command()
        .name(program)
        .bin_name(program.replacen('-', " ", 1))
        .try_get_matches_from(arguments)
        .and_then(|matches| A::from_arg_matches(&matches));
    parsed.map_err(|error| {
        // To a closed pipe there is nothing to say.
        let _ = error.print();
        ExitCode::from(if error.use_stderr() { 2 } else { 0 })
    })
}

fn carry_out(work: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => {
            eprintln!("error: starting failed: {error}");
            ExitCode::FAILURE
        }
    }
}
