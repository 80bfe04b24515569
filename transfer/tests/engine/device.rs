//! A loop device that holds old data.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::image::Random;

/// A loop device on a file of noise; detached when dropped.
pub struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// `None`, with a word on why, where there can be none.
    pub fn new(directory: &Path, size: usize, sector: u32) -> Option<Self> {
        let backing = directory.join(format!("device-{}", Random::new(size as u64).next()));
        let mut noise = vec![0; size];
        Random::new(4711).fill(&mut noise);
        std::fs::write(&backing, noise).unwrap();
        Self::attach(&backing, sector)
    }

    /// One on a file as it is.
    pub fn attach(backing: &Path, sector: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: a loop device needs root");
            return None;
        }
        let output = Command::new("losetup")
            .args(["--find", "--show", "--sector-size", &sector.to_string()])
            .arg(backing)
            .output()
            .expect("losetup is missing; install util-linux");
        if !output.status.success() {
            eprintln!(
                "skipped: losetup: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            return None;
        }
        Some(Self {
            path: String::from_utf8(output.stdout).unwrap().trim().into(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All that is on it.
    pub fn read(&self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        std::fs::File::open(&self.path)
            .unwrap()
            .read_exact_at(&mut bytes, 0)
            .unwrap();
        bytes
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.path)
            .status();
    }
}
