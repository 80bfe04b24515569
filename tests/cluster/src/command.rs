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

/// An error that waiting does not mend.
#[derive(Debug)]
pub struct Lasting(pub String);

impl std::fmt::Display for Lasting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Lasting {}

/// Asks again and again until the answer is yes or the time is up. An error is
/// an answer of no, unless it is [`Lasting`].
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
            Err(error) if error.is::<Lasting>() => return Err(error.context(what.to_owned())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_a_yes_or_a_lasting_error() {
        let mut asked = 0;
        let patience = Duration::from_secs(60);
        wait_until("it is so", patience, || {
            asked += 1;
            if asked == 1 {
                bail!("not yet")
            }
            Ok(asked == 3)
        })
        .unwrap();
        assert_eq!(asked, 3);
        let error = wait_until("it is so", patience, || {
            Err(Lasting("never".to_owned()).into())
        });
        assert_eq!(format!("{:#}", error.unwrap_err()), "it is so: never");
    }

    #[test]
    fn a_failed_command_tells_what_it_said() {
        let error = run(&mut program("sh", &["-c", "echo because >&2; exit 3"])).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("because") && text.contains("exit status: 3"),
            "{text}"
        );
    }
}
