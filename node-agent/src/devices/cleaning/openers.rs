//! Who has a device open for writing. Not all of them have it alone: older
//! OSDs trust in a lock that only they look at.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use hypercloud_inventory::snapshot::Number;
use rustix::fs::{AtFlags, CWD, FileType, OFlags, StatxFlags, statx};
use rustix::io::Errno;

/// A file on a server that is gone may keep whoever asks about it for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// The processes of `proc` that have one of these devices open for writing, as
/// `ceph-osd (process 4711)`; `own` is a descriptor of this process that does
/// not count.
///
/// # Errors
/// It cannot be told.
pub(super) fn writers(
    proc: PathBuf,
    devices: BTreeSet<Number>,
    own: RawFd,
) -> io::Result<Vec<String>> {
    let (found, result) = channel();
    thread::Builder::new()
        .name("openers".into())
        .spawn(move || {
            let _ = found.send(search(&proc, &devices, own));
        })?;
    result
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(io::Error::other("some open file does not answer")))
}

fn search(proc: &Path, devices: &BTreeSet<Number>, own: RawFd) -> io::Result<Vec<String>> {
    let this = fs::read_link(proc.join("self"))?;
    let mut found = Vec::new();
    for process in fs::read_dir(proc)? {
        let process = process?;
        let name = process.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let own = (this.as_os_str() == name).then_some(own);
        match writes(&process.path(), devices, own) {
            Ok(false) => {}
            Ok(true) => {
                let command = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                found.push(format!("{} (process {id})", command.trim()));
            }
            Err(error) if is_gone(&error) => {}
            // A process with more rights than an agent has where it is not
            // given all: the kernel keeps its files from it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(process = id, "the open files of a process cannot be seen");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Processes end while they are looked at.
fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::SRCH].map(Errno::raw_os_error);
    error
        .raw_os_error()
        .is_some_and(|code| gone.contains(&code))
}

fn writes(process: &Path, devices: &BTreeSet<Number>, own: Option<RawFd>) -> io::Result<bool> {
    for file in fs::read_dir(process.join("fd"))? {
        let name = file?.file_name();
        let counts = own.is_none_or(|own| name.to_str() != Some(own.to_string().as_str()));
        let number = match device(&process.join("fd").join(&name)) {
            Ok(number) => number,
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        if counts
            && number.is_some_and(|number| devices.contains(&number))
            && is_for_writing(&process.join("fdinfo").join(&name))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The block device that is open, through the link, which leads there wherever
/// it is. Nobody is asked over a network.
fn device(open: &Path) -> io::Result<Option<Number>> {
    let file = statx(CWD, open, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)?;
    let is_device = FileType::from_raw_mode(file.stx_mode.into()) == FileType::BlockDevice;
    Ok(is_device.then_some(Number {
        major: file.stx_rdev_major,
        minor: file.stx_rdev_minor,
    }))
}

/// What is not known counts as written.
fn is_for_writing(description: &Path) -> bool {
    let flags = fs::read_to_string(description).ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
        u32::from_str_radix(line.trim(), 8).ok()
    });
    flags.is_none_or(|flags| flags & (OFlags::WRONLY | OFlags::RDWR).bits() != 0)
}
