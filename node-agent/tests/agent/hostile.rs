//! Volumes whose owner would like to have other bytes than his own, or to
//! write where he may not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use hypercloud_proto::agent::v1 as proto;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use test_store::{Setup, Store};

use crate::disks::{Volume, disk};
use crate::export::{Expected, JOB, KEY, asked, spec};
use crate::kubelet::{Kubelet, LoopDevice, Mounted};
use crate::process::{Agent, end, forget};
use crate::{eventually, is_root};

/// What nobody may have.
const SECRET: &[u8] = b"root:s3cret-of-the-node";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_a_file_of_the_volume_is_read() {
    if !is_root("nothing_but_a_file_of_the_volume_is_read") {
        return;
    }
    let (kubelet, agent) = (Kubelet::new(), Agent::new());
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("shadow");
    fs::write(&secret, SECRET).unwrap();
    let device = LoopDevice::new(&secret);
    let number = fs::metadata(&device.0).map(|meta| {
        use std::os::unix::fs::MetadataExt;
        meta.rdev()
    });
    let number = number.unwrap();
    let store = Store::start(Setup::default()).await.unwrap();
    let volume = Volume::filesystem(&kubelet, "pvc-1", None);
    let disk = volume.disk();
    let child = agent.spawn(kubelet.root());
    let mut client = agent.client().await;
    let process = child.id().unwrap();
    let node = |kind: FileType, number: u64| {
        mknodat(CWD, &disk, kind, Mode::from_raw_mode(0o666), number).unwrap();
    };
    type Place<'a> = &'a dyn Fn();
    let open_file = format!("/proc/{process}/exe");
    let table: [(&str, &str, Place<'_>); 9] = [
        ("an absolute link", "UnsafeSource", &|| {
            symlink(&secret, &disk).unwrap();
        }),
        ("a relative link out", "UnsafeSource", &|| {
            let up = "../".repeat(16);
            let inner = secret.strip_prefix("/").unwrap();
            symlink(Path::new(&up).join(inner), &disk).unwrap();
        }),
        ("a link within the volume", "UnsafeSource", &|| {
            fs::write(disk.with_file_name("other"), SECRET).unwrap();
            symlink("other", &disk).unwrap();
        }),
        ("a link to a process's file", "UnsafeSource", &|| {
            symlink(&open_file, &disk).unwrap();
        }),
        ("a device node", "NotAFile", &|| {
            node(FileType::BlockDevice, number);
        }),
        ("a character device", "NotAFile", &|| {
            node(FileType::CharacterDevice, makedev(1, 5));
        }),
        ("a pipe", "NotAFile", &|| node(FileType::Fifo, 0)),
        ("a directory", "NotAFile", &|| {
            fs::create_dir(&disk).unwrap();
        }),
        ("nothing", "NotFound", &|| {}),
    ];
    for (what, reason, place) in table {
        place();
        let asked = asked(spec(&store, volume.mode()));
        client.start_job(asked).await.unwrap();
        let job = end(&mut client, JOB).await;
        let failure = job.failure.unwrap_or_else(|| panic!("{what} was exported"));
        assert_eq!(failure.reason, reason, "{what}: {}", failure.message);
        assert!(!failure.retryable, "{what}");
        assert!(!failure.message.contains("s3cret"), "{failure:?}");
        assert_eq!(
            (store.objects().len(), store.uploads().len()),
            (0, 0),
            "{what}"
        );
        forget(&mut client, JOB).await;
        let _ = fs::remove_file(&disk).or_else(|_| fs::remove_dir(&disk));
    }
    // Another file system below the volume's is not the volume.
    fs::write(&disk, b"").unwrap();
    let bound = Mounted::bind(&secret, disk.clone());
    let asked = asked(spec(&store, volume.mode()));
    client.start_job(asked).await.unwrap();
    let failure = end(&mut client, JOB).await.failure.unwrap();
    assert_eq!(failure.reason, "UnsafeSource", "{}", failure.message);
    forget(&mut client, JOB).await;
    drop(bound);
    assert_eq!(store.objects(), []);
    volume.let_go();
}

/// The owner has the directory for as long as the export takes.
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_in_mid_export_is_no_way_out_of_the_volume() {
    if !is_root("what_changes_in_mid_export_is_no_way_out_of_the_volume") {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("shadow");
    fs::write(&secret, SECRET).unwrap();
    let bytes = disk(96);
    let expected = Expected::new(&bytes);
    type Change<'a> = &'a dyn Fn(&Path);
    // What the file that is read is not is harmless: the object is of it, or
    // there is none. What is read twice has to be the same.
    let table: [(&str, Change<'_>); 4] = [
        ("it is exchanged for a link", &|disk| {
            let link = disk.with_file_name("link");
            symlink(&secret, &link).unwrap();
            fs::rename(&link, disk).unwrap();
        }),
        ("it is exchanged for another file", &|disk| {
            let other = disk.with_file_name("other");
            fs::write(&other, SECRET).unwrap();
            fs::rename(&other, disk).unwrap();
        }),
        ("it is removed", &|disk| fs::remove_file(disk).unwrap()),
        ("it is cut", &|disk| {
            let file = fs::File::options().write(true).open(disk).unwrap();
            file.set_len(1 << 20).unwrap();
        }),
    ];
    for (what, change) in table {
        let (kubelet, agent) = (Kubelet::new(), Agent::new());
        let store = Store::start(Setup::default()).await.unwrap();
        store.allow(2);
        let volume = Volume::filesystem(&kubelet, "pvc-1", Some(&bytes));
        let _child = agent.spawn(kubelet.root());
        let mut client = agent.client().await;
        let asked = asked(spec(&store, volume.mode()));
        client.start_job(asked).await.unwrap();
        eventually("parts are stored", async || {
            (store.stored_parts() >= 2).then_some(())
        })
        .await;
        change(&volume.disk());
        store.allow(1000);
        let job = end(&mut client, JOB).await;
        match (job.state(), store.object(KEY)) {
            (proto::JobState::Succeeded, Some(object)) => expected.judge(&object, "qcow2"),
            (proto::JobState::Failed, None) => {
                let reason = job.failure.unwrap().reason;
                assert_eq!(reason, "SourceChanged", "{what}");
            }
            (state, object) => panic!("{what}: {state:?}, object: {}", object.is_some()),
        }
        assert_eq!(store.uploads(), [], "{what}");
        forget(&mut client, JOB).await;
        volume.let_go();
    }
}
