//! The command line of HyperCloud Storage, shared by its two binaries.
//!
//! `hcs` stands alone; `kubectl-hcs` is the same as a kubectl plugin. What is
//! done is the engine's business: here are the words, the exit codes and what
//! is shown. Exit codes are part of the interface: 0 done, 1 stopped, 2 usage,
//! 3 the image is refused, 4 the source failed, 5 the target failed.

mod arguments;
mod image;
mod journal;
mod report;
mod source;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use self::arguments::{Arguments, Command};

/// Runs a command line; the first argument is the program's name.
#[must_use]
pub fn run(program: &'static str, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let parsed = Arguments::command()
        .name(program)
        .bin_name(program.replacen('-', " ", 1))
        .try_get_matches_from(arguments)
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => {
            // To a closed pipe there is nothing to say.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: starting failed: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(async move {
        match arguments.command {
            Command::Image(command) => image::run(command).await,
        }
    })
}
