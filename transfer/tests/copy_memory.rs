//! A copy takes little memory whatever the disk: measured on this very
//! process, which is why this test has a binary of its own.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod measure;

use std::io::Read;
use std::process::Command;
use std::sync::Arc;

use hypercloud_transfer::{
    CancellationToken, CopyMode, CopyRequest, DiskFile, Options, RawDisk, TargetSpec, copy,
};
use measure::{forget_peak, memory_mib, peak_mib, source};

const SIZE: u64 = 1 << 30;
/// What a copy may take beside what the process had.
const COPY_LIMIT_MIB: u64 = 64;

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_takes_little_memory() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let raw = source(from.path(), SIZE / 2);
    // As many workers as there may be, whatever this machine has.
    let options = Options {
        workers: Some(64),
        ..Options::default()
    };
    for mode in [CopyMode::Whole, CopyMode::Differences] {
        let target = to.path().join("disk.img");
        if mode == CopyMode::Differences {
            let file = std::fs::File::create(&target).unwrap();
            std::io::copy(&mut std::io::repeat(1).take(SIZE / 4), &mut &file).unwrap();
        }
        forget_peak();
        let before = memory_mib("VmRSS:");
        let request = CopyRequest {
            source: RawDisk::DiskFile {
                directory: from.path().into(),
                name: raw.file_name().unwrap().to_str().unwrap().into(),
            },
            target: TargetSpec::DiskFile(DiskFile {
                directory: to.path().into(),
                name: "disk.img".into(),
                owner: None,
                mode: 0o600,
            }),
            mode,
            resume: None,
        };
        copy(request, &options, Arc::new(()), CancellationToken::new())
            .await
            .unwrap();
        let taken = peak_mib() - before;
        println!("{mode:?}: {taken} MiB beside {before}");
        assert!(taken < COPY_LIMIT_MIB, "{mode:?}: {taken} MiB");
        let same = Command::new("cmp").arg(&raw).arg(&target).status();
        assert!(same.unwrap().success(), "{mode:?}");
    }
}
