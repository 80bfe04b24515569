//! Copies of raw disks, against a model in memory, on files and on devices
//! that hold old data.

mod device;
mod model;
mod resume;
mod trouble;

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hypercloud_transfer::{
    CancellationToken, CopyCheckpoint, CopyMode, CopyObserver, CopyRequest, DiskFile, Options,
    Progress, RawDisk, TargetSpec, TransferError, copy,
};

const MIB: usize = 1 << 20;

fn source_file(directory: &Path) -> RawDisk {
    RawDisk::DiskFile {
        directory: directory.into(),
        name: "disk.img".into(),
    }
}

fn target_file(directory: &Path) -> TargetSpec {
    TargetSpec::DiskFile(DiskFile {
        directory: directory.into(),
        name: "disk.img".into(),
        owner: None,
        mode: 0o640,
    })
}

fn request(source: RawDisk, target: TargetSpec, mode: CopyMode) -> CopyRequest {
    CopyRequest {
        source,
        target,
        mode,
        resume: None,
    }
}

fn options() -> Options {
    Options {
        checkpoint_interval: 1 << 20,
        progress_interval: Duration::from_millis(5),
        ..Options::default()
    }
}

async fn copied(request: CopyRequest) -> Result<Progress, TransferError> {
    let cancel = CancellationToken::new();
    let copied = copy(request, &options(), Arc::new(()), cancel).await?;
    Ok(copied.progress)
}

/// Writes only what is not zeros, so that the rest are holes.
fn sparse(path: &Path, bytes: &[u8]) {
    let file = File::create(path).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    for (index, block) in bytes.chunks(4096).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            file.write_all_at(block, index as u64 * 4096).unwrap();
        }
    }
}

/// Bytes that a file takes.
fn allocated(path: &Path) -> u64 {
    // What was written a moment ago may not have been given its blocks yet.
    File::open(path).unwrap().sync_all().unwrap();
    std::fs::metadata(path).unwrap().blocks() * 512
}

/// Keeps what it hears, and cancels at a checkpoint.
#[derive(Default)]
struct Watch {
    checkpoints: Mutex<Vec<CopyCheckpoint>>,
    progress: Mutex<Vec<Progress>>,
    stop_at: Option<(usize, CancellationToken)>,
}

impl CopyObserver for Watch {
    fn progress(&self, progress: Progress) {
        self.progress.lock().unwrap().push(progress);
    }

    fn checkpoint(&self, checkpoint: &CopyCheckpoint) -> std::io::Result<()> {
        let mut checkpoints = self.checkpoints.lock().unwrap();
        checkpoints.push(checkpoint.clone());
        if let Some((number, cancel)) = &self.stop_at
            && checkpoints.len() >= *number
        {
            cancel.cancel();
        }
        Ok(())
    }
}
