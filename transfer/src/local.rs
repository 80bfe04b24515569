//! Files and devices of this machine, as the system lends them out.
//!
//! What is in a directory may belong to a tenant, so a name in it is opened
//! beneath it without following links or mount points, and is looked at
//! before it is opened for anything: opening a device does something.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, SeekFrom};
use rustix::io::Errno;

/// Whether a name is one component that stays in its directory.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

/// A directory, to open names beneath it.
pub(crate) fn directory(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

/// Opens a plain name beneath a directory: no link, no other file system.
pub(crate) fn open_beneath(
    directory: &File,
    name: &str,
    flags: OFlags,
    mode: Mode,
) -> Result<File, Errno> {
    rustix::fs::openat2(
        directory,
        name,
        flags | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        mode,
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV,
    )
    .map(File::from)
}

/// Opens a regular file beneath a directory; [`Errno::INVAL`] for anything
/// else, [`Errno::LOOP`] for a link.
pub(crate) fn open_regular(directory: &File, name: &str, access: OFlags) -> Result<File, Errno> {
    let found = open_beneath(directory, name, OFlags::PATH, Mode::empty())?;
    let mode = rustix::fs::fstat(&found)?.st_mode;
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => {}
        // Held as such by the flags that do not follow it.
        FileType::Symlink => return Err(Errno::LOOP),
        _ => return Err(Errno::INVAL),
    }
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::open(same, access | OFlags::CLOEXEC, Mode::empty()).map(File::from)
}

/// Switches direct I/O; whether that worked.
pub(crate) fn set_direct(file: &File, on: bool) -> bool {
    rustix::fs::fcntl_getfl(file)
        .map(|mut flags| {
            flags.set(OFlags::DIRECT, on);
            flags
        })
        .and_then(|flags| rustix::fs::fcntl_setfl(file, flags))
        .is_ok()
}

/// Reads from `at` on until `into` is full or the file ends; how much that
/// was. Direct I/O asks for whole, aligned blocks in `into`.
pub(crate) fn fill(file: &File, at: u64, into: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = into.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // A direct read that ended at the file's unaligned end.
            Err(error) if filled > 0 && is_unaligned(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Whether the system refused a read or write for its alignment.
pub(crate) fn is_unaligned(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

/// Where the next data is at or behind `at`; `end` where none is before it.
/// What cannot tell its holes is all data.
pub(crate) fn next_data(file: &File, at: u64, end: u64) -> u64 {
    if at >= end {
        return end;
    }
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(found) => found.clamp(at, end),
        Err(Errno::NXIO) => end,
        Err(_) => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_beneath_is_opened() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), "x").unwrap();
        std::fs::create_dir(place.path().join("directory")).unwrap();
        std::os::unix::fs::symlink("file", place.path().join("link")).unwrap();
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            place.path().join("pipe"),
            Mode::RUSR | Mode::WUSR,
        )
        .unwrap();
        let directory = directory(place.path()).unwrap();
        let open = |name| open_regular(&directory, name, OFlags::RDONLY).map(|_| ());
        assert_eq!(open("file"), Ok(()));
        assert_eq!(open("link"), Err(Errno::LOOP));
        assert_eq!(open("pipe"), Err(Errno::INVAL));
        assert_eq!(open("directory"), Err(Errno::INVAL));
        assert_eq!(open("../file"), Err(Errno::XDEV));
        assert_eq!(open("none"), Err(Errno::NOENT));
        assert!(is_plain_name("disk.img"));
        for name in ["", ".", "..", "a/b", "a\0"] {
            assert!(!is_plain_name(name), "{name:?}");
        }
    }

    #[test]
    fn holes_are_told_and_the_end_is_met() {
        let file = tempfile::tempfile().unwrap();
        let end = (3 << 20) + 700;
        file.set_len(end).unwrap();
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        assert_eq!(next_data(&file, 0, end), 1 << 20);
        assert_eq!(next_data(&file, (1 << 20) + 5, end), (1 << 20) + 5);
        assert_eq!(next_data(&file, 2 << 20, end), end);
        assert_eq!(next_data(&file, 0, 1 << 19), 1 << 19);
        assert_eq!(next_data(&file, end, end), end);
        let mut bytes = vec![9; 4096];
        assert_eq!(fill(&file, 3 << 20, &mut bytes).unwrap(), 700);
    }
}
