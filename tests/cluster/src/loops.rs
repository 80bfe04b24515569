//! Takes away the mounts and loop devices that came of the cluster's files.

use crate::command::{program, run, succeeds, wait_until};
use anyhow::Result;
use rustix::fs::makedev;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A bound loop device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    device: String,
    /// The file it shows, as it is called from here.
    file: PathBuf,
    /// What identifies that file, whatever it is called.
    identity: Identity,
}

/// The device number and the inode of a file.
type Identity = (u64, u64);

/// Every bound loop device of the machine.
pub fn bound() -> Result<Vec<Loop>> {
    let output = run(&mut program(
        "losetup",
        &[
            "--list",
            "--json",
            "--output",
            "NAME,BACK-FILE,BACK-MAJ:MIN,BACK-INO",
        ],
    ))?;
    if output.trim().is_empty() {
        return Ok(Vec::new());
    }
    Ok(parse(&serde_json::from_str(&output)?))
}

fn parse(listing: &Value) -> Vec<Loop> {
    let number = |value: &Value| match value {
        Value::String(text) => text.trim().parse().ok(),
        other => other.as_u64(),
    };
    let parse_one = |entry: &Value| {
        let numbers = entry["back-maj:min"].as_str()?;
        let (major, minor) = numbers.trim().split_once(':')?;
        Some(Loop {
            device: entry["name"].as_str()?.to_owned(),
            file: entry["back-file"].as_str()?.into(),
            identity: (
                makedev(major.parse().ok()?, minor.parse().ok()?),
                number(&entry["back-ino"])?,
            ),
        })
    };
    let entries = listing["loopdevices"].as_array();
    entries
        .into_iter()
        .flatten()
        .filter_map(parse_one)
        .collect()
}

/// The devices that came of files below `root`, each with its distance from
/// such a file, the farthest first.
///
/// The first of a chain shows a file below `root`. The next shows a file of the
/// file system on it (which has another name, or none, once its mount is gone),
/// or shows the device itself again: kubelet binds one to each block volume to
/// keep it open. `identify` tells what a device's own file in `/dev` is, and
/// its number.
fn choose(
    root: &Path,
    all: &[Loop],
    identify: impl Fn(&str) -> Option<(Identity, u64)>,
) -> Vec<(usize, String)> {
    let mut distances: BTreeMap<&str, usize> = all
        .iter()
        .filter(|each| each.file.starts_with(root))
        .map(|each| (each.device.as_str(), 0))
        .collect();
    // No chain is longer than there are devices.
    for _ in all {
        for (below, distance) in distances.clone() {
            let Some((identity, number)) = identify(below) else {
                continue;
            };
            for each in all {
                if each.identity == identity || each.identity.0 == number {
                    let known = distances.entry(&each.device).or_default();
                    *known = (*known).max(distance + 1);
                }
            }
        }
    }
    let mut chosen: Vec<(usize, String)> = distances
        .into_iter()
        .map(|(device, distance)| (distance, device.to_owned()))
        .collect();
    chosen.sort_by(|left, right| right.cmp(left));
    chosen
}

/// The bound devices that came of files below `root`.
pub fn below(root: &Path) -> Result<Vec<(usize, String)>> {
    Ok(choose(root, &bound()?, |device| {
        let status = fs::metadata(device).ok()?;
        Some(((status.dev(), status.ino()), status.rdev()))
    }))
}

/// The files below `root` that a loop device shows.
pub fn files_below(root: &Path) -> Result<Vec<String>> {
    let all = bound()?;
    let shown = all.iter().filter(|each| each.file.starts_with(root));
    Ok(shown.map(|each| each.file.display().to_string()).collect())
}

/// Unbinds every device that came of files below `root`, and takes away the
/// mounts there.
pub fn remove_below(root: &Path) -> Result<()> {
    // What is mounted there keeps its own device; the others keep the mount.
    detach(root, 1)?;
    unmount_below(root)?;
    detach(root, 0)
}

fn detach(root: &Path, distance: usize) -> Result<()> {
    wait_until(
        "the cluster's loop devices are unbound",
        Duration::from_secs(30),
        || {
            let mut devices = below(root)?;
            devices.retain(|(from, _)| *from >= distance);
            for (_, device) in &devices {
                // A device still open goes when it is closed; looked at again.
                let _ = succeeds(&mut program("losetup", &["--detach", device]));
            }
            Ok(devices.is_empty())
        },
    )
}

/// Unmounts everything below `root`, the innermost first.
fn unmount_below(root: &Path) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mounts")?;
    let mut points: Vec<String> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|point| Path::new(point).starts_with(root))
        .map(str::to_owned)
        .collect();
    points.reverse();
    for point in points {
        run(&mut program("umount", &[point]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_second_device_of_a_volume_goes_first() {
        let listing = json!({"loopdevices": [
            {"name": "/dev/loop0", "back-file": "/c/volumes.xfs",
                "back-maj:min": "254:0", "back-ino": 5},
            {"name": "/dev/loop1", "back-file": "/nodes/node-a/x.img",
                "back-maj:min": "  7:0", "back-ino": 9},
            {"name": "/dev/loop2", "back-file": "/var/lib/kubelet/x", "back-maj:min": "0:6",
                "back-ino": u64::from(b'1')},
            {"name": "/dev/loop3", "back-file": "/home/someone/disk.img",
                "back-maj:min": "254:0", "back-ino": 7},
            {"name": "/dev/loop4", "back-file": "/var/lib/kubelet/y", "back-maj:min": "0:6",
                "back-ino": u64::from(b'3')},
        ]});
        let identify = |device: &str| {
            let letter = device.as_bytes()[9];
            Some((
                (makedev(0, 6), letter.into()),
                makedev(7, u32::from(letter - b'0')),
            ))
        };
        let chosen = |distance, device: &str| (distance, device.to_owned());
        assert_eq!(
            choose(Path::new("/c"), &parse(&listing), identify),
            [
                chosen(2, "/dev/loop2"),
                chosen(1, "/dev/loop1"),
                chosen(0, "/dev/loop0")
            ]
        );
    }
}
