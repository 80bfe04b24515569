//! Control groups: every process of a node is below one, which is how `down`
//! finds them all, whatever their parents were.
//!
//! Both layouts work alike: one hierarchy (v2), or one per controller (v1).

use crate::command::{pause, wait_until};
use crate::settings::CONTROL_GROUP;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const MOUNT: &str = "/sys/fs/cgroup";

/// The root directories of all hierarchies with controllers.
fn hierarchies() -> Result<Vec<PathBuf>> {
    let mount = Path::new(MOUNT);
    if mount.join("cgroup.controllers").exists() {
        return Ok(vec![mount.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(mount).with_context(|| format!("list {MOUNT}"))? {
        let entry = entry?;
        // `cpu` and the like may be links to `cpu,cpuacct`.
        if entry.file_type()?.is_dir() && entry.path().join("cgroup.procs").exists() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Makes the node's group in every hierarchy. Returns the directories a
/// process joins to count as the node's own.
pub fn make(node: &str) -> Result<Vec<PathBuf>> {
    let mut joined = Vec::new();
    for hierarchy in hierarchies()? {
        let group = hierarchy.join(CONTROL_GROUP).join(node);
        let system = group.join("system");
        for directory in [&hierarchy.join(CONTROL_GROUP), &group, &system] {
            fs::create_dir_all(directory)
                .with_context(|| format!("make {}", directory.display()))?;
            inherit_processors(directory)?;
            if directory != &system {
                delegate_controllers(directory)?;
            }
        }
        joined.push(system);
    }
    Ok(joined)
}

/// In v1 a new `cpuset` group admits no process before it has processors.
fn inherit_processors(directory: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let (own, parent) = (directory.join(file), directory.join("..").join(file));
        if own.exists()
            && parent.exists()
            && fs::read_to_string(&own)?.trim().is_empty()
            && !directory.join("cgroup.controllers").exists()
        {
            fs::write(&own, fs::read_to_string(&parent)?.trim())?;
        }
    }
    Ok(())
}

/// In v2 a group's children have only the controllers it hands down.
fn delegate_controllers(directory: &Path) -> Result<()> {
    let Ok(controllers) = fs::read_to_string(directory.join("cgroup.controllers")) else {
        return Ok(());
    };
    let wanted: Vec<String> = controllers
        .split_whitespace()
        .map(|name| format!("+{name}"))
        .collect();
    fs::write(directory.join("cgroup.subtree_control"), wanted.join(" "))
        .with_context(|| format!("hand controllers down from {}", directory.display()))
}

/// Ends every process below the cluster's group and removes the group.
pub fn end_all() -> Result<()> {
    let groups: Vec<PathBuf> = hierarchies()?
        .into_iter()
        .map(|hierarchy| hierarchy.join(CONTROL_GROUP))
        .filter(|group| group.exists())
        .collect();
    wait_until(
        "every process of the nodes has ended",
        Duration::from_secs(30),
        || {
            let mut living = 0;
            for group in &groups {
                thaw(group);
                for process in processes_below(group) {
                    living += 1;
                    if let Some(process) = Pid::from_raw(process) {
                        // Gone in between is as good.
                        let _ = kill_process(process, Signal::KILL);
                    }
                }
            }
            Ok(living == 0)
        },
    )?;
    for group in &groups {
        remove_tree(group)?;
    }
    Ok(())
}

/// Whether any group of the cluster is left.
pub fn exists() -> bool {
    hierarchies().is_ok_and(|all| {
        all.iter()
            .any(|hierarchy| hierarchy.join(CONTROL_GROUP).exists())
    })
}

fn processes_below(group: &Path) -> Vec<i32> {
    let mut found: Vec<i32> = fs::read_to_string(group.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    for child in children(group) {
        found.extend(processes_below(&child));
    }
    found
}

/// A frozen process does not die of a signal.
fn thaw(group: &Path) {
    let file = group.join("freezer.state");
    if file.exists() {
        // The group may vanish meanwhile.
        let _ = fs::write(file, "THAWED");
    }
    for child in children(group) {
        thaw(&child);
    }
}

fn children(group: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(group) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

fn remove_tree(group: &Path) -> Result<()> {
    for child in children(group) {
        remove_tree(&child)?;
    }
    // The kernel needs a moment after the last process.
    for _ in 0..50 {
        match fs::remove_dir(group) {
            Err(error) if error.raw_os_error() == Some(16) => pause(Duration::from_millis(50)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => return other.with_context(|| format!("remove {}", group.display())),
        }
    }
    fs::remove_dir(group).with_context(|| format!("remove {}", group.display()))
}
