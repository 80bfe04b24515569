//! Every format of every kind of disk is what `qemu-img` and the engine's own
//! reader take it for.

use std::path::Path;

use super::*;

/// Exports a disk in all formats; how long each file is.
async fn all_formats(disk: &Path) -> Vec<u64> {
    let sizes = each_format(disk, true).await;
    assert_eq!(sizes[3], std::fs::metadata(disk).unwrap().len());
    sizes
}

async fn each_format(disk: &Path, comes_back: bool) -> Vec<u64> {
    let folder = tempfile::tempdir().unwrap();
    let size = std::fs::metadata(disk).unwrap().len();
    let mut sizes = Vec::new();
    for (index, format) in FORMATS.into_iter().enumerate() {
        let path = folder.path().join(index.to_string());
        let target = ExportTarget::File(path.clone());
        let done = exported(request(disk, target, format)).await.unwrap();
        assert_eq!(done.virtual_size, size);
        assert_eq!(done.size, std::fs::metadata(&path).unwrap().len());
        assert_eq!(done.progress.done, size, "{format:?}");
        assert_eq!(done.progress.total, size);
        assert!(done.progress.received <= size);
        assert_eq!(done.progress.written, done.size, "{format:?}");
        judge(disk, &path, format);
        if comes_back && size > 0 && size.is_multiple_of(512) {
            judge_import(disk, SourceSpec::File(path)).await;
        }
        sizes.push(done.size);
    }
    sizes
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_of_a_bit_of_everything() {
    for size in [40 * MIB, 23 * MIB + 12_800, 5 * CLUSTER] {
        let folder = tempfile::tempdir().unwrap();
        let disk = mixed(folder.path(), size);
        let sizes = all_formats(&disk).await;
        assert!(sizes[0] < sizes[2] && sizes[1] < sizes[2], "{sizes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_whose_size_is_odd() {
    for size in [1, 511, 513, CLUSTER - 1, CLUSTER + 1, 3 * MIB + 700] {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(folder.path(), size, &[(0, size, Fill::Text)]);
        all_formats(&disk).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_of_nothing_or_of_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let empty = disk(folder.path(), 0, &[]);
    all_formats(&empty).await;
    let hole = disk(folder.path(), 520 * MIB, &[]);
    let sizes = all_formats(&hole).await;
    assert!(
        sizes[..3].iter().all(|size| *size <= 4 * CLUSTER),
        "{sizes:?}"
    );
    let zeros = disk(folder.path(), 30 * MIB, &[(0, 30 * MIB, Fill::Zeros)]);
    let sizes = all_formats(&zeros).await;
    assert!(
        sizes[..3].iter().all(|size| *size <= 4 * CLUSTER),
        "{sizes:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_of_noise_grow_by_little() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(folder.path(), 50 * MIB, &[(0, 50 * MIB, Fill::Noise)]);
    for size in all_formats(&disk).await {
        assert!(size <= 51 * MIB, "{size}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sparse_disks_of_several_tables() {
    let folder = tempfile::tempdir().unwrap();
    let stretches: Vec<(u64, u64, Fill)> = (0..4)
        .map(|n| (n * 700 * MIB + n * 4096, 200_000 + n * 70_000, Fill::Text))
        .chain([(511 * MIB, 2 * MIB, Fill::Noise)])
        .collect();
    let disk = disk(folder.path(), 2200 * MIB + 512, &stretches);
    for format in [ZLIB, ZSTD, PLAIN] {
        let path = folder.path().join("image");
        let target = ExportTarget::File(path.clone());
        let mut request = request(&disk, target, format);
        request.overwrite = true;
        exported(request).await.unwrap();
        judge(&disk, &path, format);
    }
}

/// A guest may write what looks like another disk's header.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_begins_like_an_image_is_what_its_bytes_are() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner.qcow2");
    run(Command::new("qemu-img")
        .args(["create", "-f", "qcow2", "-b", "/etc/hostname", "-F", "raw"])
        .arg(&inner)
        .arg("10M"));
    let mut bytes = std::fs::read(&inner).unwrap();
    bytes.resize((2 * MIB) as usize, 7);
    let path = folder.path().join("disk.img");
    std::fs::write(&path, &bytes).unwrap();
    // An import refuses such a disk, as somebody might take it for an image.
    each_format(&path, false).await;
}

/// About as small as what everybody would write, for what programs are of and
/// what does not compress. What a system's disk holds becomes smaller.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_about_as_small_as_of_qemu() {
    let folder = tempfile::tempdir().unwrap();
    let stretches = [(50 * MIB, 9 * MIB + 5, Fill::Noise)];
    let disk = disk(folder.path(), 80 * MIB, &stretches);
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let most = program.len().min((48 * MIB) as usize);
    let file = File::options().write(true).open(&disk).unwrap();
    file.write_all_at(&program[..most], MIB).unwrap();
    let theirs = folder.path().join("theirs");
    run(Command::new("qemu-img")
        .args(["convert", "-c", "-f", "raw", "-O", "qcow2"])
        .args([&disk, &theirs]));
    let theirs = std::fs::metadata(&theirs).unwrap().len();
    let target = ExportTarget::File(folder.path().join("ours"));
    let ours = exported(request(&disk, target, ZLIB)).await.unwrap().size;
    assert!(ours * 100 <= theirs * 103, "{ours}, not {theirs}");
}
