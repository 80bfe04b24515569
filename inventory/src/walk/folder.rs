//! A folder that is held open, so that names in it are looked up from there:
//! with hundreds of devices, going down long paths for every attribute would
//! be most of the work.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, RawDir, accessat, openat};
use rustix::io::Errno;

/// A folder; one that could not be opened has nothing in it.
pub(super) struct Folder {
    fd: Option<OwnedFd>,
}

const PAGE: usize = 4096;

impl Folder {
    pub(super) fn at(path: &Path) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self {
            fd: openat(CWD, path, flags, Mode::empty()).ok(),
        }
    }

    /// A folder in it, which may be a link.
    pub(super) fn folder(&self, name: &str) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = self.fd.as_ref();
        Self {
            fd: fd.and_then(|fd| openat(fd, name, flags, Mode::empty()).ok()),
        }
    }

    /// The names in it, in no order.
    pub(super) fn names(&self) -> Option<Vec<String>> {
        let fd = self.fd.as_ref()?;
        let mut buffer = [MaybeUninit::uninit(); 2 * PAGE];
        let mut entries = RawDir::new(fd, &mut buffer);
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let entry = entry.ok()?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => names.push(name.to_owned()),
            }
        }
        Some(names)
    }

    /// Whether there is such a file in it.
    pub(super) fn has(&self, name: &str) -> bool {
        let found = self.fd.as_ref();
        found.is_some_and(|fd| accessat(fd, name, Access::EXISTS, AtFlags::empty()).is_ok())
    }

    /// The bytes of a file in it. An attribute is read at one go, without
    /// asking for its size or its end.
    pub(super) fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.with_page(name, |page, rest| [page, rest].concat())
    }

    /// The text of a file in it, without the white space and zero bytes around
    /// it; an empty one counts as none.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty())
    }

    /// The same, where nothing is something too.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.with_page(name, |page, rest| {
            if rest.is_empty() {
                trimmed(page)
            } else {
                trimmed(&[page, rest].concat())
            }
        })
    }

    pub(super) fn numeric<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.with_page(name, |page, _| {
            std::str::from_utf8(page).ok()?.trim().parse().ok()
        })?
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.with_page(name, |page, _| match page.trim_ascii() {
            b"" => None,
            text => Some(text != b"0"),
        })?
    }

    /// Reads a file: its first page, and what follows where that is full.
    fn with_page<T>(&self, name: &str, then: impl FnOnce(&[u8], &[u8]) -> T) -> Option<T> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(self.fd.as_ref()?, name, flags, Mode::empty()).ok()?;
        let mut page = [0; PAGE];
        let length = read(&file, &mut page)?;
        let page = page.get(..length)?;
        let mut rest = Vec::new();
        let mut last = length;
        while last == PAGE {
            let mut next = [0; PAGE];
            last = read(&file, &mut next)?;
            rest.extend_from_slice(next.get(..last)?);
        }
        Some(then(page, &rest))
    }
}

fn read(file: &OwnedFd, page: &mut [u8; PAGE]) -> Option<usize> {
    loop {
        match rustix::io::read(file, &mut page[..]) {
            Ok(length) => return Some(length),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// A file's text, without the white space and zero bytes around it.
pub(super) fn trimmed(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_matches(|c: char| c.is_whitespace() || c == '\0')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_of_any_length_are_read() {
        let dir = tempfile::tempdir().unwrap();
        for length in [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE] {
            let text = "x".repeat(length);
            fs::write(dir.path().join("file"), format!("\n{text}\0\n")).unwrap();
            let folder = Folder::at(dir.path());
            assert_eq!(folder.text("file"), Some(text));
        }
        fs::write(dir.path().join("file"), "0\n").unwrap();
        let folder = Folder::at(dir.path());
        assert_eq!(folder.flag("file"), Some(false));
        assert_eq!(folder.numeric::<u64>("file"), Some(0));
        assert_eq!(folder.names(), Some(vec!["file".to_owned()]));
        assert_eq!(folder.text("none"), None);
        assert_eq!(folder.folder("none").names(), None);
    }
}
