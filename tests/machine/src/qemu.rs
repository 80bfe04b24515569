//! QEMU: its command line, and the process that it is.

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::failure::Failure;

const PROGRAM: &str = "qemu-system-x86_64";

/// The disk to boot, as this user finds it.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    kind: Kind,
    owner: (u32, u32),
    mode: u32,
    user: (u32, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Device,
    File,
}

impl Disk {
    /// Looks at the disk, and whether this user may read and write it.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let user = (
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        let opened = File::options().read(true).write(true).open(path);
        let metadata = opened
            .and_then(|file| file.metadata())
            .map_err(|source| Failure::Disk {
                path: path.to_owned(),
                user: user.0,
                source,
            })?;
        let kind = if metadata.file_type().is_block_device() {
            Kind::Device
        } else {
            Kind::File
        };
        Ok(Self {
            path: path.to_owned(),
            kind,
            owner: (metadata.uid(), metadata.gid()),
            mode: metadata.mode() & 0o7777,
            user,
        })
    }
}

impl Display for Disk {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Device => "device",
            Kind::File => "file",
        };
        let (owner, group) = self.owner;
        let (user, users) = self.user;
        write!(
            formatter,
            "{} is a {kind} of {owner}:{group}, mode {:o}; this is {user}:{users}",
            self.path.display(),
            self.mode
        )
    }
}

/// The command line: as KubeVirt runs a machine without hardware support,
/// with its firmware's and its own output on one serial console, with no
/// network and no screen.
pub fn words(disk: &Disk, memory_mib: u32) -> Vec<String> {
    let driver = match disk.kind {
        Kind::Device => "host_device",
        Kind::File => "file",
    };
    // A comma in a value is doubled.
    let path = disk.path.display().to_string().replace(',', ",,");
    let memory = format!("{memory_mib}M");
    let file =
        format!("driver={driver},node-name=file,filename={path},cache.direct=on,discard=unmap");
    [
        PROGRAM,
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        // A machine that falls over ends, rather than to start again.
        "-no-reboot",
        // The firmware speaks on the serial console too.
        "-machine",
        "q35,graphics=off",
        "-accel",
        "tcg,tb-size=64",
        "-smp",
        "1",
        "-m",
        &memory,
        "-blockdev",
        &file,
        "-blockdev",
        "driver=raw,node-name=disk,file=file,discard=unmap",
        "-device",
        "virtio-blk-pci,drive=disk,bootindex=1",
        "-device",
        "virtio-rng-pci",
        "-serial",
        "stdio",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// A running machine. It ends with this value.
pub struct Machine {
    process: Child,
    input: ChildStdin,
}

impl Machine {
    /// Starts the program, the first of the words. Its standard input and
    /// output are the machine's console.
    pub fn start(words: &[String]) -> Result<(Self, ChildStdout), Failure> {
        let program = words.first().map(String::as_str).unwrap_or(PROGRAM);
        let failed = |source| Failure::Start {
            program: program.to_owned(),
            source,
        };
        let mut process = Command::new(program)
            .args(words.iter().skip(1))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(input), Some(output)) => Ok((Self { process, input }, output)),
            _ => Err(failed(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Types on the console.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        self.input.write_all(text.as_bytes())?;
        self.input.flush()
    }

    /// Waits for the process of a machine that is off.
    pub fn end(mut self) -> Result<(), Failure> {
        let status = self.process.wait().map_err(|source| Failure::Start {
            program: PROGRAM.to_owned(),
            source,
        })?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::Qemu(status))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // One that has ended takes no signal, and none that counts.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_from_a_device_and_from_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a,b.img");
        let error = Disk::open(&path).unwrap_err();
        assert_eq!(error.exit_code(), 1, "{error:?}");
        std::fs::write(&path, "disk").unwrap();
        let disk = Disk::open(&path).unwrap();
        assert_eq!(disk.kind, Kind::File);
        let words = words(&disk, 256).join(" ");
        assert!(words.contains("driver=file,"), "{words}");
        assert!(words.contains("/a,,b.img,"), "{words}");
        assert!(words.contains("-m 256M "), "{words}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Machine::start(&["/no/such/program".to_owned()])
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "/no/such/program does not start");
    }
}
