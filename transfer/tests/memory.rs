//! Memory stays bounded whatever the image: measured on this very process,
//! which is why this test has a binary of its own.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[allow(dead_code, reason = "each uses a part of it")]
mod measure;

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use hypercloud_transfer::{
    AddressPolicy, CancellationToken, DiskFile, HttpSource, ImportRequest, Options, SourceSpec,
    TargetSpec, import,
};
use liblzma::stream::{Check, Filters, LzmaOptions, MtStreamBuilder};

use measure::{forget_peak, memory_mib, peak_mib, source};

const SIZE: u64 = 1 << 30;
/// What an import may take beside what the process had.
const LIMIT_MIB: u64 = 120;

fn answer(stream: TcpStream, path: &Path) -> std::io::Result<()> {
    let size = std::fs::metadata(path)?.len();
    let mut read = BufReader::new(stream.try_clone()?);
    let mut write = stream;
    loop {
        let mut range = None;
        loop {
            let mut line = String::new();
            if read.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            if let Some(found) = line.to_lowercase().strip_prefix("range: bytes=") {
                range = found.trim().split_once('-').and_then(|(first, last)| {
                    Some((
                        first.parse::<u64>().ok()?,
                        last.parse::<u64>().ok()?.min(size - 1),
                    ))
                });
            }
        }
        let (first, last) = range.unwrap_or((0, size - 1));
        let length = last - first + 1;
        write!(
            write,
            "HTTP/1.1 206 Part\r\nContent-Length: {length}\r\nETag: \"v1\"\r\n\
             Content-Range: bytes {first}-{last}/{size}\r\n\r\n"
        )?;
        let mut file = std::fs::File::open(path)?;
        file.seek(SeekFrom::Start(first))?;
        std::io::copy(&mut file.take(length), &mut write)?;
    }
}

fn serve(path: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let path = path.clone();
            std::thread::spawn(move || answer(stream, &path));
        }
    });
    format!("http://{address}/image")
}

/// As `xz -6 -T2` packs, but faster: blocks of 24 MiB, a dictionary of 8.
fn pack_xz(from: &Path, to: &Path) {
    let mut options = LzmaOptions::new_preset(0).unwrap();
    options.dict_size(8 << 20);
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let encoder = MtStreamBuilder::new()
        .filters(filters)
        .block_size(24 << 20)
        .check(Check::Crc64)
        .threads(2)
        .encoder()
        .unwrap();
    let from = std::fs::File::open(from).unwrap();
    let mut packed = liblzma::read::XzEncoder::new_stream(from, encoder);
    std::io::copy(&mut packed, &mut std::fs::File::create(to).unwrap()).unwrap();
}

/// What `zstd --long=26` asks of whoever unpacks it, packed with less: the
/// window that the frame's header tells is put right after.
fn pack_zstd(from: &Path, to: &Path) {
    let file = std::fs::File::create(to).unwrap();
    let mut packed = zstd::Encoder::new(&file, 1).unwrap();
    packed.window_log(20).unwrap();
    std::io::copy(&mut std::fs::File::open(from).unwrap(), &mut packed).unwrap();
    packed.finish().unwrap();
    file.write_all_at(&[(26 - 10) << 3], 5).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_source_is_imported_in_little_memory() {
    // One after the other: all are measured on this process.
    a_gigabyte_is_imported_in_little_memory().await;
    what_is_packed_is_imported_in_little_memory().await;
}

async fn what_is_packed_is_imported_in_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let raw = source(directory.path(), 72 << 20);
    let (xz, zstd) = (directory.path().join("xz"), directory.path().join("zst"));
    pack_xz(&raw, &xz);
    pack_zstd(&raw, &zstd);
    // With one worker, blocks are unpacked in order.
    for (name, packed, workers) in [
        ("xz in blocks", &xz, Some(2)),
        ("xz in order", &xz, Some(1)),
        ("zstd", &zstd, None),
    ] {
        forget_peak();
        let before = memory_mib("VmRSS:");
        let request = ImportRequest::new(
            SourceSpec::Http(HttpSource::open(serve(packed.clone()).parse().unwrap())),
            TargetSpec::DiskFile(DiskFile {
                directory: directory.path().into(),
                name: "disk.img".into(),
                owner: None,
                mode: 0o600,
            }),
        );
        let options = Options {
            address_policy: AddressPolicy::Any,
            workers,
            ..Options::default()
        };
        let begun = std::time::Instant::now();
        import(request, &options, Arc::new(()), CancellationToken::new())
            .await
            .unwrap();
        let taken = peak_mib() - before;
        println!("{name}: {:?}, {taken} MiB beside {before}", begun.elapsed());
        assert!(taken < LIMIT_MIB, "{name}: {taken} MiB");
        let same = Command::new("cmp")
            .arg(&raw)
            .arg(directory.path().join("disk.img"))
            .status();
        assert!(same.unwrap().success(), "{name}");
    }
}

async fn a_gigabyte_is_imported_in_little_memory() {
    let directory = tempfile::tempdir().unwrap();
    let raw = source(directory.path(), SIZE);
    for arguments in [
        &["-o", "cluster_size=64k"][..],
        &["-c", "-o", "cluster_size=2M,compression_type=zstd"],
        &["-o", "extended_l2=on,cluster_size=2M"],
    ] {
        let image = directory.path().join("image.qcow2");
        let status = Command::new("qemu-img")
            .args(["convert", "-f", "raw", "-O", "qcow2", "-W", "-m", "16"])
            .args(arguments)
            .args([&raw, &image])
            .status()
            .expect("qemu-img is missing; install qemu-utils");
        assert!(status.success());
        let request = ImportRequest::new(
            SourceSpec::Http(HttpSource::open(serve(image).parse().unwrap())),
            TargetSpec::DiskFile(DiskFile {
                directory: directory.path().into(),
                name: "disk.img".into(),
                owner: None,
                mode: 0o600,
            }),
        );
        let options = Options {
            address_policy: AddressPolicy::Any,
            ..Options::default()
        };
        forget_peak();
        let before = memory_mib("VmRSS:");
        let begun = std::time::Instant::now();
        import(request, &options, Arc::new(()), CancellationToken::new())
            .await
            .unwrap();
        let taken = peak_mib() - before;
        println!(
            "{arguments:?}: {:?}, {taken} MiB beside {before}",
            begun.elapsed()
        );
        assert!(taken < LIMIT_MIB, "{arguments:?}: {taken} MiB");
        let same = Command::new("cmp")
            .arg(&raw)
            .arg(directory.path().join("disk.img"))
            .status();
        assert!(same.unwrap().success(), "{arguments:?}");
    }
}
