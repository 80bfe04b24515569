//! Runs a program to its end; a failure carries what it printed.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A program with its arguments and nothing on its standard input.
pub fn program<S: AsRef<OsStr>>(name: impl AsRef<OsStr>, arguments: &[S]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the command and returns its standard output.
pub fn run(command: &mut Command) -> Result<String> {
    let line = describe(command);
    let output = command.output().with_context(|| format!("start {line}"))?;
    if !output.status.success() {
        bail!(
            "{line}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs the command with `input` on its standard input.
pub fn feed(command: &mut Command, input: &[u8]) -> Result<String> {
    let line = describe(command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {line}"))?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that ends early says why itself.
        let _ = pipe.write_all(input);
    }
    let output = child
        .wait_with_output()
        .with_context(|| format!("wait for {line}"))?;
    if !output.status.success() {
        bail!(
            "{line}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether the command ended well; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Asks again and again until the answer is yes or the time is up.
pub fn wait_until(
    what: &str,
    limit: Duration,
    mut answer: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        let last = answer();
        match last {
            Ok(true) => return Ok(()),
            _ if Instant::now() < deadline => pause(Duration::from_millis(200)),
            Ok(false) => bail!("{what}: not so after {} s", limit.as_secs()),
            Err(error) => {
                return Err(error.context(format!("{what}: not so after {} s", limit.as_secs())));
            }
        }
    }
}

/// Lets time pass between two looks at a condition that has a deadline.
#[expect(
    clippy::disallowed_methods,
    reason = "what is waited for is another program's state, which sends no event"
)]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(OsStr::to_string_lossy));
    words.join(" ")
}
