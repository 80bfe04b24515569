//! How a run can end badly.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use thiserror::Error;

/// Why a run ended before all was done.
#[derive(Debug, Error)]
pub enum Failure {
    /// The disk is not there, or not for this user.
    #[error("{path} cannot be opened for reading and writing by user {user}")]
    Disk {
        /// The disk.
        path: PathBuf,
        /// Number of the user.
        user: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// QEMU is not there or does not start.
    #[error("{program} does not start")]
    Start {
        /// The program.
        program: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// No login prompt.
    #[error("no login prompt came")]
    Boot(#[source] Ending),
    /// The prompt was there, a shell did not follow.
    #[error("the login led to no shell")]
    Login(#[source] Ending),
    /// The user is not let in.
    #[error("{user} is not let in with this password")]
    Refused {
        /// The user.
        user: String,
    },
    /// A command did not end.
    #[error("command {number} did not end")]
    Unanswered {
        /// Which command, from 1.
        number: usize,
        /// What came instead.
        source: Ending,
    },
    /// A command ended with another status than 0.
    #[error("command {number} ended with status {status}")]
    Command {
        /// Which command, from 1.
        number: usize,
        /// Its exit status.
        status: u8,
    },
    /// The machine did not go off.
    #[error("the machine did not go off")]
    ShutDown(#[source] Ending),
    /// QEMU itself failed.
    #[error("QEMU failed: {0}")]
    Qemu(ExitStatus),
}

/// What came instead of what was waited for.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Ending {
    /// Nothing in time.
    #[error("not within {} s", .0.as_secs())]
    Late(Duration),
    /// The machine is off.
    #[error("the machine went off")]
    Off,
    /// The console said what nobody recovers from.
    #[error("{0}")]
    Trouble(&'static str),
    /// The machine takes no more input.
    #[error("the console takes no input: {0}")]
    Deaf(String),
    /// Nobody reads the transcript any more.
    #[error("the transcript cannot be written: {0}")]
    Transcript(String),
}

impl Failure {
    /// The exit status of the program.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Disk { .. } | Self::Start { .. } => 1,
            Self::Boot(_) => 3,
            Self::Login(_) | Self::Refused { .. } => 4,
            Self::Unanswered { .. } | Self::Command { .. } => 5,
            Self::ShutDown(_) | Self::Qemu(_) => 6,
        }
    }
}
