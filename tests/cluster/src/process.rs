//! Processes that outlive the command that started them.
//!
//! Each is recorded by its process id and start time, so that only what was
//! started here is ever stopped, also after ids were used again.

use crate::command::{Lasting, pause};
use crate::settings::Settings;
use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What to start and under which name.
#[derive(Debug)]
pub struct Service<'a> {
    /// The name of its record and its log.
    pub name: &'a str,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The control groups to start it in; none: those of this process.
    pub control_groups: Vec<std::path::PathBuf>,
}

/// Starts the service in a session of its own unless it runs already.
pub fn start(settings: &Settings, service: &Service<'_>) -> Result<i32> {
    if let Some(running) = recorded(settings, service.name) {
        return Ok(running);
    }
    let log = settings.log(service.name);
    for directory in [log.parent(), Some(settings.processes().as_path())]
        .into_iter()
        .flatten()
    {
        fs::create_dir_all(directory)?;
    }
    let output = File::options()
        .create(true)
        .append(true)
        .open(&log)
        .with_context(|| format!("open {}", log.display()))?;
    // The shell joins the groups before anything else runs, so no child is
    // left outside; setsid and the shell then become the program itself.
    let mut script = String::from("set -e; ");
    for group in &service.control_groups {
        script.push_str(&format!("echo $$ > '{}/cgroup.procs'; ", group.display()));
    }
    script.push_str("exec \"$@\"");
    let child = Command::new("setsid")
        .args(["sh", "-c", &script, "sh"])
        .args(&service.words)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("start {}", service.name))?;
    let process = child.id() as i32;
    let started = start_time(process).unwrap_or_default();
    fs::write(
        settings.processes().join(service.name),
        format!("{process} {started}\n"),
    )?;
    Ok(process)
}

/// The id of a recorded process that still runs.
pub fn recorded(settings: &Settings, name: &str) -> Option<i32> {
    let record = fs::read_to_string(settings.processes().join(name)).ok()?;
    let (process, started) = record.trim().split_once(' ')?;
    let process = process.parse().ok()?;
    (start_time(process)? == started.parse::<u64>().ok()?).then_some(process)
}

/// The names of all records.
pub fn names(settings: &Settings) -> Vec<String> {
    let Ok(entries) = fs::read_dir(settings.processes()) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Stops a recorded process, at last by force, and forgets it.
pub fn stop(settings: &Settings, name: &str, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    let mut signal = Signal::TERM;
    while let Some(process) = recorded(settings, name) {
        if let Some(process) = Pid::from_raw(process) {
            // Gone in between is as good.
            let _ = kill_process(process, signal);
        }
        if Instant::now() > deadline {
            if signal == Signal::KILL && Instant::now() > deadline + Duration::from_secs(10) {
                bail!("{name} does not end");
            }
            signal = Signal::KILL;
        }
        pause(Duration::from_millis(50));
    }
    match fs::remove_file(settings.processes().join(name)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Fails for good if the process has ended.
pub fn expect_alive(settings: &Settings, name: &str) -> Result<()> {
    match recorded(settings, name) {
        Some(_) => Ok(()),
        None => Err(Lasting(format!("{name} has ended")).into()),
    }
}

/// Adds the end of the process's log to an error.
pub fn explain<T>(settings: &Settings, name: &str, outcome: Result<T>) -> Result<T> {
    outcome.map_err(|error| {
        let path = settings.log(name);
        let tail = tail(&path).unwrap_or_else(|error| format!("(cannot be read: {error})"));
        anyhow!(
            "{error:#}\nthe log of {name}, {}, ends with\n{tail}",
            path.display()
        )
    })
}

fn tail(path: &Path) -> Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(6000)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().rev().take(25).collect();
    Ok(lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
}

/// Field 22 of `/proc/<id>/stat`, in clock ticks since the machine started;
/// none for a process that is gone or a zombie.
fn start_time(process: i32) -> Option<u64> {
    parse_start_time(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

fn parse_start_time(stat: &str) -> Option<u64> {
    // The command in parentheses may itself hold spaces and parentheses.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "42 (a) b) S 1 42 42 0 -1 4194304 100 0 0 0 1 2 3 4 20 0 1 0 98765 1000 10";

    #[test]
    fn the_start_time_is_found_behind_any_command_name() {
        assert_eq!(parse_start_time(STAT), Some(98765));
    }

    #[test]
    fn a_zombie_is_no_running_process() {
        assert_eq!(parse_start_time(&STAT.replace(") S ", ") Z ")), None);
    }

    #[test]
    fn a_started_service_is_recorded_until_it_is_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            root: directory.path().into(),
            cache: directory.path().into(),
            sources: directory.path().into(),
        };
        let service = Service {
            name: "sleeper",
            words: ["sleep", "1000"].map(String::from).into(),
            control_groups: Vec::new(),
        };
        let process = start(&settings, &service).unwrap();
        assert_eq!(recorded(&settings, "sleeper"), Some(process));
        assert_eq!(start(&settings, &service).unwrap(), process);
        stop(&settings, "sleeper", Duration::from_secs(5)).unwrap();
        assert_eq!(recorded(&settings, "sleeper"), None);
        assert!(names(&settings).is_empty());
    }
}
