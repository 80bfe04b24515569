//! What others than QEMU read in the images that are made.
//!
//! QEMU inflates with a window of 4 KiB, and what is made here has matches of
//! up to 32 KiB. It reads them, as it inflates a cluster at once; so do other
//! readers.

use imago::file::File as ImagoFile;
use imago::qcow2::Qcow2;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatDriverBuilder, Storage, StorageOpenOptions};

use super::*;

/// The disk in an image, as the crate `imago` reads it; it has no Zstandard.
async fn by_imago(path: &Path) -> Vec<u8> {
    let options = StorageOpenOptions::new().filename(path);
    let file = ImagoFile::open(options).await.unwrap();
    let builder = Qcow2::<ImagoFile>::builder(file);
    let image = builder.open(DenyImplicitOpenGate::default()).await.unwrap();
    let image = FormatAccess::new(image);
    let mut bytes = vec![0; image.size() as usize];
    image.read(&mut bytes[..], 0).await.unwrap();
    bytes
}

/// Whether there is an nbdkit that reads qcow2: 1.36 and later do.
fn has_nbdkit() -> bool {
    let told = Command::new("nbdkit")
        .args(["null", "--filter=qcow2dec", "--dump-plugin"])
        .output();
    let told = told.map(|told| String::from_utf8_lossy(&told.stdout).into_owned());
    let told = told.unwrap_or_default();
    told.contains("qcow2dec_deflate=yes") && told.contains("qcow2dec_zstd=yes")
}

/// Compares the disk with what nbdkit reads in an image. Its map of what is
/// allocated is left out: it has none that QEMU takes, of QEMU's own images
/// neither.
fn judge_by_nbdkit(disk: &Path, image: &Path) {
    let compare = format!("qemu-img compare -f raw -F raw {} \"$uri\"", disk.display());
    run(Command::new("nbdkit")
        .args(["-r", "-U", "-", "--filter=noextents", "--filter=qcow2dec"])
        .arg("file")
        .arg(image)
        .args(["--run", &compare]));
}

/// A disk that shrinks only by matches over 16 KiB. It ends with a hole, as
/// nbdkit takes the first table only at a place that the disk, too, has.
fn far(folder: &Path) -> PathBuf {
    let path = disk(folder, 16 * MIB, &[(0, 12 * MIB, Fill::Noise)]);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut cluster = vec![0; CLUSTER as usize];
    for at in (0..8 * MIB).step_by(cluster.len()) {
        file.read_exact_at(&mut cluster, at).unwrap();
        let (pattern, rest) = cluster.split_at_mut(16 << 10);
        for copy in rest.chunks_mut(pattern.len()) {
            copy.copy_from_slice(pattern);
        }
        file.write_all_at(&cluster, at).unwrap();
    }
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn others_read_the_same_disk() {
    let folder = tempfile::tempdir().unwrap();
    let has_nbdkit = has_nbdkit();
    if !has_nbdkit {
        println!("nbdkit's reader is left out: there is none that has the filter qcow2dec");
    }
    for name in ["mixed", "far"] {
        let disk = match name {
            "mixed" => mixed(folder.path(), 40 * MIB + 5 * 512),
            _ => far(folder.path()),
        };
        let bytes = std::fs::read(&disk).unwrap();
        for format in [ZLIB, ZSTD, PLAIN] {
            let image = folder.path().join("image");
            let target = ExportTarget::File(image.clone());
            let mut asked = request(&disk, target, format);
            asked.overwrite = true;
            let done = exported(asked).await.unwrap();
            judge(&disk, &image, format);
            if has_nbdkit {
                judge_by_nbdkit(&disk, &image);
            }
            if name == "far" && format != PLAIN {
                assert!(done.size < 7 * MIB, "{format:?}: {}", done.size);
            }
            if format != ZSTD {
                assert!(by_imago(&image).await == bytes, "{name} {format:?}");
            }
        }
    }
}
