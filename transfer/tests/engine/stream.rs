//! Large disks from servers that cannot be asked for a range.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::image::{flatten, qcow2};
use crate::server::{Reply, Server};
use crate::watch::{file, http, options, run};

#[tokio::test]
async fn a_disk_of_several_tables_is_read_in_order() {
    const MIB: usize = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("source.raw");
    let disk = File::create(&source).unwrap();
    disk.set_len(1300 * MIB as u64).unwrap();
    // A table of 64 KiB clusters maps 512 MiB: data on both sides of each.
    for at in [3, 500, 509, 515, 900, 1020, 1025, 1299] {
        let block: Vec<u8> = (0..MIB).map(|i| (i * at / 7 % 251) as u8).collect();
        disk.write_all_at(&block, (at * MIB) as u64).unwrap();
    }
    for arguments in [&["-c"][..], &["-q"]] {
        let image = qcow2(&source, "image.qcow2", arguments);
        let content = std::fs::read(&image).unwrap();
        let server = Server::start(move |_| Reply::whole(&content)).await;
        let target = tempfile::tempdir().unwrap();
        let url = server.url("/image");
        let imported = run(http(&url), file(target.path()), &options())
            .await
            .unwrap();
        assert!(!imported.facts.ranges);
        let found = std::fs::read(target.path().join("disk.img")).unwrap();
        assert!(found == flatten(&image), "{arguments:?}: the disks differ");
    }
}
