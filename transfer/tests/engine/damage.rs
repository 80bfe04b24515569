//! Damaged images: either the disk that QEMU reads too, or a refusal; never a
//! crash, and never a disk beside a refusal.

use hypercloud_transfer::{Options, Side, SpacePolicy};

use crate::image::{Random, assert_same, disk, qcow2, raw};
use crate::watch::{file, local, options, run};

#[tokio::test]
async fn damaged_images_are_read_as_qemu_reads_them_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(51, 3 << 20);
    let source = raw(directory.path(), "source.raw", &bytes);
    let sparse = Options {
        space_policy: SpacePolicy::Sparse,
        ..options()
    };
    let mut random = Random::new(52);
    let (mut read, mut refused) = (0, 0);
    for arguments in [
        &["-c", "-o", "cluster_size=4k"][..],
        &["-c", "-o", "cluster_size=4k,compression_type=zstd"],
        &["-o", "cluster_size=16k,extended_l2=on"],
        &["-o", "cluster_size=512,compat=0.10"],
    ] {
        let image = qcow2(&source, "image.qcow2", arguments);
        let good = std::fs::read(&image).unwrap();
        for _ in 0..60 {
            let mut bad = good.clone();
            for _ in 0..=random.below(4) {
                // Mostly where the tables are.
                let reach = [120, 20 << 10, good.len() as u64][random.below(3) as usize];
                bad[random.below(reach) as usize] = random.next() as u8;
            }
            if random.below(8) == 0 {
                bad.truncate(random.below(good.len() as u64) as usize);
            }
            let damaged = raw(directory.path(), "damaged.qcow2", &bad);
            let target = tempfile::tempdir().unwrap();
            let found = target.path().join("disk.img");
            match run(local(&damaged), file(target.path()), &sparse).await {
                Ok(_) => {
                    read += 1;
                    if let Some(expected) = oracle(&damaged) {
                        assert_same(&std::fs::read(found).unwrap(), &expected, "damaged");
                    }
                }
                Err(error) => {
                    refused += 1;
                    // A lawful size may be more than the file system can.
                    let lawful =
                        error.side() == Side::Refused || error.reason() == "TargetTooSmall";
                    assert!(lawful, "{}", error.message());
                    assert!(!found.exists());
                }
            }
        }
    }
    assert!(read > 20 && refused > 20, "{read} read, {refused} refused");
}

/// The disk as QEMU reads it, unless it refuses it, or it is huge.
pub fn oracle(image: &std::path::Path) -> Option<Vec<u8>> {
    let out = image.with_extension("oracle");
    let status = std::process::Command::new("qemu-img")
        .args(["convert", "-f", "qcow2", "-O", "raw"])
        .args([image, &out])
        .stderr(std::process::Stdio::null())
        .status()
        .expect("qemu-img is missing; install qemu-utils");
    let small = status.success() && std::fs::metadata(&out).is_ok_and(|m| m.len() < 100 << 20);
    let bytes = small.then(|| std::fs::read(&out).unwrap());
    let _ = std::fs::remove_file(&out);
    bytes
}
