//! Takes away the mounts and loop devices that came of the cluster's files.

use crate::command::{program, run, succeeds, wait_until};
use anyhow::Result;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A bound loop device and what it shows: (device, backing file).
pub fn bound() -> Result<Vec<(String, String)>> {
    let output = run(&mut program(
        "losetup",
        &["--list", "--json", "--output", "NAME,BACK-FILE"],
    ))?;
    if output.trim().is_empty() {
        return Ok(Vec::new());
    }
    parse(&serde_json::from_str(&output)?)
}

fn parse(listing: &Value) -> Result<Vec<(String, String)>> {
    let devices = listing["loopdevices"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    Ok(devices
        .iter()
        .filter_map(|device| {
            let name = device["name"].as_str()?;
            let file = device["back-file"].as_str()?;
            Some((name.to_owned(), file.to_owned()))
        })
        .collect())
}

/// The devices whose files are below `root`, and those that show one of these
/// again (kubelet binds one to each block volume to keep it open), the latter
/// first.
pub fn below(root: &Path, all: &[(String, String)]) -> Vec<String> {
    let own: Vec<&String> = all
        .iter()
        .filter(|(_, file)| Path::new(file).starts_with(root))
        .map(|(device, _)| device)
        .collect();
    let again = all.iter().filter(|(device, file)| {
        !own.contains(&device)
            && (own
                .iter()
                .any(|first| file == *first || Some(file.as_str()) == first.strip_prefix("/dev"))
                || file.starts_with("/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/"))
    });
    again
        .map(|(device, _)| device.clone())
        .chain(own.iter().map(|device| (*device).clone()))
        .collect()
}

/// Unbinds every device that came of files below `root`.
pub fn detach_below(root: &Path) -> Result<()> {
    wait_until(
        "the cluster's loop devices are unbound",
        Duration::from_secs(30),
        || {
            let devices = below(root, &bound()?);
            for device in &devices {
                // A device still open goes when it is closed; looked at again.
                let _ = succeeds(&mut program("losetup", &["--detach", device]));
            }
            Ok(devices.is_empty())
        },
    )
}

/// Unmounts everything below `root`, the innermost first.
pub fn unmount_below(root: &Path) -> Result<()> {
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
            {"name": "/dev/loop0", "back-file": "/c/volumes.xfs"},
            {"name": "/dev/loop1", "back-file": "/c/volumes/nodes/node-a/x.img"},
            {"name": "/dev/loop2", "back-file": "/dev/loop1"},
            {"name": "/dev/loop3", "back-file": "/home/someone/disk.img"},
            {"name": "/dev/loop4", "back-file": "/loop1"},
        ]});
        let all = parse(&listing).unwrap();
        assert_eq!(
            below(Path::new("/c"), &all),
            ["/dev/loop2", "/dev/loop4", "/dev/loop0", "/dev/loop1"]
        );
    }
}
