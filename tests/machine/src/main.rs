//! `test-machine DISK [COMMAND...]`: boots a disk as KubeVirt would, waits
//! for the login prompt on the serial console, logs in, runs the commands and
//! shuts the machine down.
//!
//! Standard output is the transcript: what the console said, and lines that
//! begin with `==`, which are this program's own. The exit status says how far
//! it came: see [`failure::Failure::exit_code`].

mod console;
mod dialogue;
mod failure;
mod qemu;
mod session;
mod text;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::failure::Failure;
use crate::qemu::Disk;
use crate::session::{Account, Limits, Session};

/// Boots a disk as KubeVirt would, and speaks to it over its serial console
///
/// Exit status: 0 all well, 1 not started, 2 usage, 3 no login prompt, 4 not
/// logged in, 5 a command failed, 6 not shut down.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// A block device, or a file with a raw disk
    disk: PathBuf,
    /// Shell commands, one after the other; the first that fails ends it
    #[arg(value_parser = command)]
    commands: Vec<String>,
    /// Memory of the machine in MiB
    #[arg(long, default_value_t = 384)]
    memory: u32,
    /// Who logs in
    #[arg(long, default_value = "root")]
    user: String,
    /// His password
    #[arg(long, env = "MACHINE_PASSWORD", default_value = "hypercloud")]
    password: String,
    /// Seconds to the login prompt at most
    #[arg(long, default_value_t = 300)]
    boot_limit: u64,
    /// Seconds for the login, and for each command, at most
    #[arg(long, default_value_t = 120)]
    command_limit: u64,
    /// Seconds until the machine is off at most
    #[arg(long, default_value_t = 120)]
    off_limit: u64,
}

fn command(word: &str) -> Result<String, &'static str> {
    dialogue::check(word).map(|()| word.to_owned())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.exit_code();
            eprintln!("error: {:#}", anyhow::Error::new(failure));
            ExitCode::from(code)
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let disk = Disk::open(&arguments.disk)?;
    println!("== {disk}");
    let limits = Limits {
        boot: Duration::from_secs(arguments.boot_limit),
        command: Duration::from_secs(arguments.command_limit),
        off: Duration::from_secs(arguments.off_limit),
    };
    let words = qemu::words(&disk, arguments.memory);
    let begun = Instant::now();
    let mut session = Session::start(&words, limits, io::stdout())?;
    session.boot()?;
    println!("\n== login prompt after {} s", begun.elapsed().as_secs());
    session.log_in(&Account {
        user: &arguments.user,
        password: &arguments.password,
    })?;
    for command in &arguments.commands {
        session.execute(command)?;
    }
    session.shut_down()?;
    println!("== off after {} s", begun.elapsed().as_secs());
    Ok(())
}
