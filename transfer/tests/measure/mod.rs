//! What tests that measure their own process share.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes that compress to about half.
pub fn source(directory: &Path, size: u64) -> PathBuf {
    let path = directory.join("source.raw");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let mut state = 88172645463325252u64;
    for block in 0..size / 64 {
        let mut bytes = [0; 64];
        for chunk in bytes.chunks_mut(8).take(4) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            chunk.copy_from_slice(&state.to_le_bytes());
        }
        bytes[32..40].copy_from_slice(&block.to_le_bytes());
        file.write_all(&bytes).unwrap();
    }
    file.flush().unwrap();
    path
}

/// The most that was resident since the last [`forget_peak`].
pub fn peak_mib() -> u64 {
    memory_mib("VmHWM:")
}

/// A line of this process's status.
pub fn memory_mib(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        / 1024
}

/// Forgets the peak so far, which packing the input may have been.
pub fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}
