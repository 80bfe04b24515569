//! Disks with known bytes, as a person would have made them: written raw,
//! converted by qemu-img.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

const MIB: u64 = 1 << 20;

/// How a disk is made.
pub struct Recipe {
    /// Size that a guest sees, in bytes.
    pub virtual_size: u64,
    /// Bytes of data on it, spread over it in runs with gaps between them.
    pub data: u64,
    /// Arguments of `qemu-img convert` that make the image of it; an image
    /// in raw format is the disk itself.
    pub convert: &'static [&'static str],
}

/// An image and what must come out of it.
pub struct Disk {
    /// The image file.
    pub image: PathBuf,
    /// Size that a guest sees, in bytes.
    pub virtual_size: u64,
    /// SHA-256 of the disk's bytes as `qemu-img convert -O raw` writes them.
    pub sha256: String,
    _folder: tempfile::TempDir,
}

/// zlib clusters, which every tool writes by default.
pub const ZLIB: &[&str] = &["-O", "qcow2", "-c"];
/// zstd clusters.
pub const ZSTD: &[&str] = &["-O", "qcow2", "-c", "-o", "compression_type=zstd"];
/// Clusters that are not compressed.
pub const PLAIN: &[&str] = &["-O", "qcow2"];
/// The old version of the format.
pub const VERSION_2: &[&str] = &["-O", "qcow2", "-c", "-o", "compat=0.10"];
/// No format at all.
pub const RAW: &[&str] = &["-O", "raw"];

impl Recipe {
    /// Makes the disk in a folder of its own, which goes with it.
    pub fn make(&self) -> anyhow::Result<Disk> {
        let folder = tempfile::tempdir()?;
        let source = folder.path().join("source.raw");
        self.write(&source)?;
        let image = folder.path().join("image");
        let mut arguments = vec!["convert", "-f", "raw"];
        arguments.extend(self.convert);
        qemu_img(&arguments, &[&source, &image])?;
        std::fs::remove_file(&source)?;
        // The oracle reads the image that is served, not the disk it was
        // made from: what it says is what must come out.
        let oracle = folder.path().join("oracle.raw");
        let format = if self.convert == RAW { "raw" } else { "qcow2" };
        qemu_img(&["convert", "-f", format, "-O", "raw"], &[&image, &oracle])?;
        let sha256 = file_sha256(&oracle)?;
        std::fs::remove_file(&oracle)?;
        Ok(Disk {
            image,
            virtual_size: self.virtual_size,
            sha256,
            _folder: folder,
        })
    }

    /// Writes runs of 4 MiB, each half noise and half text, evenly spread.
    fn write(&self, path: &Path) -> anyhow::Result<()> {
        const RUN: u64 = 4 * MIB;
        let file = File::create(path)?;
        file.set_len(self.virtual_size)?;
        let runs = self.data / RUN;
        let mut noise = BufReader::with_capacity(MIB as usize, File::open("/dev/urandom")?);
        let mut block = vec![0u8; RUN as usize];
        for run in 0..runs {
            noise.read_exact(&mut block[..RUN as usize / 2])?;
            let mut rest = &mut block[RUN as usize / 2..];
            while rest.len() >= 32 {
                write!(rest, "{run:015} of {runs:011}\n\0")?;
            }
            let spread = (self.virtual_size - RUN) / runs.max(1);
            let offset = (run * spread) / 4096 * 4096;
            file.write_all_at(&block, offset)?;
        }
        Ok(())
    }
}

/// Runs qemu-img; its words are the error's when it fails.
pub fn qemu_img(arguments: &[&str], paths: &[&Path]) -> anyhow::Result<()> {
    let output = Command::new("qemu-img")
        .args(arguments)
        .args(paths)
        .output()
        .context("qemu-img is needed: install qemu-utils")?;
    if !output.status.success() {
        bail!(
            "qemu-img {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// SHA-256 of a file's bytes, in hexadecimal.
pub fn file_sha256(path: &Path) -> anyhow::Result<String> {
    let mut digest = Sha256::new();
    let mut file = BufReader::with_capacity(MIB as usize, File::open(path)?);
    loop {
        let bytes = file.fill_buf()?;
        if bytes.is_empty() {
            break;
        }
        digest.update(bytes);
        let count = bytes.len();
        file.consume(count);
    }
    Ok(digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}
