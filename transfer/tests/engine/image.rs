//! Test images, made by QEMU's tools, which are also the oracle.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a tool of `qemu-utils`; its absence is a failure that says so.
pub fn qemu(tool: &str, args: &[&str]) -> String {
    let output = Command::new(tool)
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("{tool}: {error}; install qemu-utils"));
    assert!(
        output.status.success(),
        "{tool} {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A small generator, so that a failure can be repeated.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// Bytes like a disk's: noise, text and zeros in runs of many sizes.
pub fn disk(seed: u64, size: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = vec![0; size];
    let mut at = 0;
    while at < size {
        let length = (1 << random.below(20)) + random.below(5000) as usize;
        let end = (at + length).min(size);
        match random.below(3) {
            0 => random.fill(&mut bytes[at..end]),
            1 => {
                let word = random.next();
                for (index, byte) in bytes[at..end].iter_mut().enumerate() {
                    *byte = b"all work and no play "[(index + word as usize) % 21];
                }
            }
            _ => {}
        }
        at = end;
    }
    bytes
}

/// Writes a raw file.
pub fn raw(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Converts a raw file to qcow2.
pub fn qcow2(raw: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let path = raw.with_file_name(name);
    let mut all = vec!["convert", "-f", "raw", "-O", "qcow2"];
    all.extend(arguments);
    all.extend([raw.to_str().unwrap(), path.to_str().unwrap()]);
    qemu("qemu-img", &all);
    path
}

/// The disk in an image, as QEMU reads it.
pub fn flatten(image: &Path) -> Vec<u8> {
    let path = image.with_extension("oracle");
    let (from, to) = (image.to_str().unwrap(), path.to_str().unwrap());
    qemu("qemu-img", &["convert", "-O", "raw", from, to]);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

/// Compares two disks without printing them.
pub fn assert_same(found: &[u8], expected: &[u8], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    if let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) {
        panic!(
            "{what}: differs at {at:#x}: {:#04x} for {:#04x}",
            found[at], expected[at]
        );
    }
}
