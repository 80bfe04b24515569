//! Copies from and to loop devices, the targets full of noise.

use hypercloud_transfer::CopyMode;

use super::*;
use crate::device::LoopDevice;
use crate::image::{assert_same, disk};

/// A loop device that holds these bytes.
fn holding(directory: &Path, bytes: &[u8], sector: u32) -> Option<LoopDevice> {
    let device = LoopDevice::new(directory, bytes.len(), sector)?;
    let file = File::options().write(true).open(device.path()).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_all().unwrap();
    Some(device)
}

fn from(device: &LoopDevice) -> RawDisk {
    RawDisk::BlockDevice(device.path().into())
}

fn to(device: &LoopDevice) -> TargetSpec {
    TargetSpec::BlockDevice(device.path().into())
}

#[tokio::test]
async fn a_device_full_of_noise_becomes_the_disk_and_zeros_behind_it() {
    let place = tempfile::tempdir().unwrap();
    // Not of whole blocks, not of whole sectors, nor nothing.
    for (seed, size, capacity, sector) in [
        (1, 5 * MIB, 5 * MIB, 512),
        (2, 3 * MIB + 512, 9 * MIB, 512),
        (3, 2 * MIB + 1000, 2 * MIB + 1024, 512),
        (4, 7 * MIB + 1, 12 * MIB, 4096),
        (5, 4095, 8 * MIB, 4096),
    ] {
        let bytes = disk(seed, size);
        sparse(&place.path().join("disk.img"), &bytes);
        for mode in [CopyMode::Whole, CopyMode::Differences] {
            let Some(target) = LoopDevice::new(place.path(), capacity, sector) else {
                return;
            };
            let asked = request(source_file(place.path()), to(&target), mode);
            let progress = copied(asked.clone()).await.unwrap();
            let mut expected = bytes.clone();
            expected.resize(capacity, 0);
            let what = format!("{mode:?} {size} of {capacity}");
            assert_same(&target.read(capacity), &expected, &what);
            let total = capacity as u64;
            assert_eq!((progress.total, progress.done), (total, total));
            // Now that both are the same, there is nothing to be done.
            let again = request(asked.source, asked.target, CopyMode::Differences);
            assert_eq!(copied(again).await.unwrap().written, 0, "{what}");
            assert_same(&target.read(capacity), &expected, &what);
        }
    }
}

#[tokio::test]
async fn devices_and_files_become_each_other() {
    let place = tempfile::tempdir().unwrap();
    let bytes = disk(9, 6 * MIB);
    for mode in [CopyMode::Whole, CopyMode::Differences] {
        let Some(source) = holding(place.path(), &bytes, 512) else {
            return;
        };
        let target = LoopDevice::new(place.path(), 6 * MIB + 512, 512).unwrap();
        copied(request(from(&source), to(&target), mode))
            .await
            .unwrap();
        let mut expected = bytes.clone();
        expected.resize(6 * MIB + 512, 0);
        assert_same(&target.read(6 * MIB + 512), &expected, "device to device");

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.img");
        // As long as it was before, which is not as long as it has to be.
        std::fs::write(&path, vec![0xaa; 7 * MIB + 13]).unwrap();
        copied(request(from(&source), target_file(directory.path()), mode))
            .await
            .unwrap();
        assert_same(&std::fs::read(&path).unwrap(), &bytes, "device to file");
        assert_same(&source.read(6 * MIB), &bytes, "the source");
        let data = bytes.chunks(4096).filter(|b| b.iter().any(|b| *b != 0));
        let most = data.count() as u64 * 4096 + 16384;
        assert!(allocated(&path) <= most, "zeros take no room");
    }
}

/// The tail of a larger device, and holes, are given back rather than
/// written: the loop device's own file tells.
#[tokio::test]
async fn zeros_are_deallocated_on_a_device() {
    let place = tempfile::tempdir().unwrap();
    let mut bytes = vec![0; 16 * MIB];
    bytes[5 * MIB..6 * MIB].fill(3);
    sparse(&place.path().join("disk.img"), &bytes);
    for mode in [CopyMode::Whole, CopyMode::Differences] {
        let directory = tempfile::tempdir().unwrap();
        let Some(target) = LoopDevice::new(directory.path(), 32 * MIB, 512) else {
            return;
        };
        let backing = std::fs::read_dir(directory.path()).unwrap().next();
        let backing = backing.unwrap().unwrap().path();
        assert!(allocated(&backing) >= 32 << 20);
        let asked = request(source_file(place.path()), to(&target), mode);
        let progress = copied(asked).await.unwrap();
        assert_eq!(progress.written, 1 << 20);
        bytes.resize(32 * MIB, 0);
        assert_same(&target.read(32 * MIB), &bytes, "device");
        bytes.truncate(16 * MIB);
        let taken = allocated(&backing);
        assert!(taken <= 1200 << 10, "{mode:?}: {taken} bytes taken");
    }
}

/// Two disks of that size that are mostly the same: data all over, and one
/// block in about a hundred that is another on each.
fn two_states(place: &Path, size: u64) -> [std::path::PathBuf; 2] {
    let mut random = crate::image::Random::new(12);
    let paths = ["before", "after"].map(|name| place.join(name));
    for path in &paths {
        let file = File::create(path).unwrap();
        file.set_len(size).unwrap();
        for index in 0..size >> 24 {
            file.write_all_at(&[index as u8 | 1; 64 << 10], index << 24)
                .unwrap();
        }
        // Eight in a group, with a block between them that stays the same.
        let mut block = [0; 4096];
        let groups = size / 3_276_800;
        for index in 0..groups * 8 {
            random.fill(&mut block);
            let at = index / 8 * 3_276_800 + index % 8 * 8192;
            file.write_all_at(&block, at).unwrap();
        }
    }
    paths
}

/// The bar of a rollback: of 10 GiB, 100 MiB changed.
async fn bar(source: RawDisk, target: TargetSpec, size: u64) {
    let begun = std::time::Instant::now();
    let asked = request(source, target, CopyMode::Differences);
    let (options, watch) = (Options::default(), Arc::new(Watch::default()));
    let done = copy(asked, &options, watch.clone(), CancellationToken::new())
        .await
        .unwrap()
        .progress;
    println!("{done:?} in {:?}", begun.elapsed());
    let changed = size / 3_276_800 * 8 * 4096;
    assert_eq!(done.written, changed, "what differs, and nothing else");
    assert_eq!((done.total, done.done), (size, size));
    let checkpoints = watch.checkpoints.lock().unwrap().len();
    assert!((1..100).contains(&checkpoints), "{checkpoints} checkpoints");
}

fn is_same(a: &Path, b: &Path) -> bool {
    let same = std::process::Command::new("cmp").arg(a).arg(b).status();
    same.unwrap().success()
}

#[tokio::test]
async fn of_a_file_no_more_is_written_than_differs() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let size = 10 << 30;
    let [before, after] = two_states(from.path(), size);
    let (source, target) = (from.path().join("disk.img"), to.path().join("disk.img"));
    std::fs::rename(before, &source).unwrap();
    std::fs::rename(after, &target).unwrap();
    bar(source_file(from.path()), target_file(to.path()), size).await;
    assert!(is_same(&source, &target));
    assert!(allocated(&target) <= allocated(&source) + (1 << 20));
}

#[tokio::test]
async fn of_a_device_no_more_is_written_than_differs() {
    let place = tempfile::tempdir().unwrap();
    let size = 1 << 30;
    let attached = two_states(place.path(), size).map(|path| LoopDevice::attach(&path, 512));
    let [Some(before), Some(after)] = attached else {
        return;
    };
    bar(from(&before), to(&after), size).await;
    assert!(is_same(before.path(), after.path()));
}
