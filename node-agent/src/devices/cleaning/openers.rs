//! Who has a device open for writing. Not all of them have it alone: older
//! OSDs trust in a lock that only they look at.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use hypercloud_inventory::snapshot::Number;
use rustix::fs::{OFlags, major, minor};

/// The processes of `proc` that have one of these devices open for writing, as
/// `ceph-osd (process 4711)`. What may not be looked at is left out.
pub(super) fn writers(proc: &Path, devices: &BTreeSet<Number>) -> Vec<String> {
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for process in processes {
        let name = process.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let folder = process.path();
        if writes(&folder, devices) {
            let command = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            found.push(format!("{} (process {id})", command.trim()));
        }
    }
    found
}

fn writes(process: &Path, devices: &BTreeSet<Number>) -> bool {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten();
    files.flatten().any(|file| {
        // Through the link, which leads to what is open wherever that is.
        let Ok(open) = fs::metadata(file.path()) else {
            return false;
        };
        let number = Number {
            major: major(open.rdev()),
            minor: minor(open.rdev()),
        };
        let is_device = open.mode() & 0o170_000 == 0o060_000;
        is_device
            && devices.contains(&number)
            && is_for_writing(&process.join("fdinfo").join(file.file_name()))
    })
}

/// What is not known counts as written.
fn is_for_writing(description: &Path) -> bool {
    let flags = fs::read_to_string(description).ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
        u32::from_str_radix(line.trim(), 8).ok()
    });
    flags.is_none_or(|flags| flags & (OFlags::WRONLY | OFlags::RDWR).bits() != 0)
}
