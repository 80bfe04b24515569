//! `hcs image export`, run as a user runs it, with a real S3 server.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command as Blocking;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_store::{KEYS, Setup, Store};
use tokio::process::{Child, Command};

const OBJECT: &str = "s3://images/disks/my disk";
const KEY: &str = "disks/my disk";
const MIB: usize = 1 << 20;
const DEADLINE: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A disk of so many MiB: noise, with a hole in every fourth MiB.
fn disk(folder: &Path, mebibytes: usize) -> PathBuf {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = vec![0; mebibytes * MIB];
    for (index, part) in bytes.chunks_mut(MIB).enumerate() {
        if index % 4 == 3 {
            continue;
        }
        for word in part.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
    }
    let path = folder.join("disk.raw");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn hcs(home: &Path, store: &Store, disk: &Path, target: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hcs"));
    command.args(["image", "export"]).arg(disk).arg(target);
    if target.starts_with("s3://") {
        command.args(["--endpoint", &store.endpoint(), "--path-style"]);
    }
    command
        .args(["-o", "json"])
        .env_clear()
        .env("HOME", home)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_ACCESS_KEY_ID", KEYS.0)
        .env("AWS_SECRET_ACCESS_KEY", KEYS.1)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Exit code, and the last line of what the command said.
async fn ended(child: Child) -> (Option<i32>, Value) {
    let output = tokio::time::timeout(DEADLINE, child.wait_with_output());
    let output = output.await.expect("it ends in time").unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap_or("null");
    (output.status.code(), serde_json::from_str(last).unwrap())
}

async fn run(command: &mut Command) -> (Option<i32>, Value) {
    ended(command.spawn().unwrap()).await
}

/// QEMU's judgement on what a disk became.
fn judge(raw: &Path, image: &Path, format: &str) {
    let qemu_img = |words: &[&str], files: &[&Path]| {
        let output = Blocking::new("qemu-img").args(words).args(files).output();
        let output = output.expect("qemu-img is missing; install qemu-utils");
        assert!(output.status.success(), "{words:?}: {output:?}");
    };
    if format == "qcow2" {
        qemu_img(&["check", "-f", "qcow2"], &[image]);
    }
    qemu_img(&["compare", "-f", "raw", "-F", format], &[raw, image]);
}

fn judge_object(store: &Store, raw: &Path, format: &str) {
    let path = raw.with_file_name("downloaded");
    std::fs::write(&path, store.object(KEY).unwrap()).unwrap();
    judge(raw, &path, format);
}

fn sha256(path: &Path) -> String {
    let said = Blocking::new("sha256sum").arg(path).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    format!("sha256:{}", &said[..64])
}

#[tokio::test]
async fn a_disk_becomes_an_object_or_a_file_of_every_kind() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::start(Setup::default()).await.unwrap();
    let raw = disk(home.path(), 24);
    // A link on the way is the user's own.
    let link = home.path().join("link");
    std::os::unix::fs::symlink(&raw, &link).unwrap();
    let file = home.path().join("file");
    let target = file.to_str().unwrap();
    for (words, format) in [
        (&[][..], "qcow2"),
        (&["--compression", "zstd"], "qcow2"),
        (&["--compression", "none"], "qcow2"),
        (&["--format", "raw"], "raw"),
    ] {
        let mut command = hcs(home.path(), &store, &link, OBJECT);
        let (code, done) = run(command.args(words).args(["--overwrite", "--digest"])).await;
        assert_eq!((code, &done["event"]), (Some(0), &"done".into()), "{done}");
        assert_eq!(done["digest"], sha256(&raw), "{words:?}");
        assert_eq!(done["size"], store.object(KEY).unwrap().len());
        assert_eq!(done["virtualSize"], 24 * MIB);
        let bare = |etag: &str| etag.trim_matches('"').to_owned();
        let etag = done["etag"].as_str().map(bare);
        assert_eq!(etag, store.etag(KEY).as_deref().map(bare));
        judge_object(&store, &raw, format);
        assert_eq!(store.uploads(), []);

        let mut command = hcs(home.path(), &store, &raw, target);
        let (code, done) = run(command.args(words).arg("--overwrite")).await;
        assert_eq!((code, &done["event"]), (Some(0), &"done".into()), "{done}");
        assert_eq!(done.get("digest"), None, "{words:?}");
        judge(&raw, &file, format);
        let same = std::fs::read(&file).unwrap() == store.object(KEY).unwrap();
        assert!(same, "{words:?}: the same bytes, wherever they go");
    }
}

#[tokio::test]
async fn what_is_there_stays_and_exit_codes_tell_whose_doing_it_is() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::start(Setup::with(KEY, b"somebody's")).await.unwrap();
    let raw = disk(home.path(), 12);
    let missing = home.path().join("missing");
    let there = home.path().join("there");
    std::fs::write(&there, "somebody's").unwrap();
    let there = there.to_str().unwrap();
    let fresh = home.path().join("fresh");
    let fresh = fresh.to_str().unwrap();
    let table: [(&Path, &str, &[&str], i32, &str); 9] = [
        (&raw, OBJECT, &[], 5, "ObjectExists"),
        (&raw, "s3://nowhere/a", &[], 5, "NoSuchBucket"),
        (&raw, OBJECT, &["--anonymous"], 5, "CredentialsRequired"),
        (&raw, there, &[], 2, "TargetExists"),
        (&raw, "/no/such/folder/disk", &[], 5, ""),
        (&missing, OBJECT, &["--overwrite"], 4, "NotFound"),
        (&raw, fresh, &["--resume"], 2, "MisplacedOption"),
        (&raw, fresh, &["--region", "r"], 2, "MisplacedOption"),
        (
            &raw,
            fresh,
            &["--format", "raw", "--compression", "zlib"],
            2,
            "MisplacedOption",
        ),
    ];
    for (disk, target, words, expected, reason) in table {
        let mut command = hcs(home.path(), &store, disk, target);
        let (code, event) = run(command.args(words)).await;
        assert_eq!(code, Some(expected), "{target} {words:?}: {event}");
        assert_eq!(event["event"], "failed");
        assert!(
            reason.is_empty() || event["reason"] == reason,
            "{target} {words:?}: {event}"
        );
    }
    assert_eq!(store.object(KEY).unwrap(), b"somebody's");
    assert_eq!(std::fs::read(there).unwrap(), b"somebody's");
    assert!(!Path::new(fresh).exists());
    assert_eq!(store.uploads(), []);
}

/// Waits until the command has come so far.
async fn until(what: &str, child: &mut Child, is_so: impl Fn() -> bool) {
    let looking = async {
        while !is_so() {
            let ended = tokio::time::timeout(LOOK, child.wait()).await;
            assert!(ended.is_err(), "{what}: it ended by itself: {ended:?}");
        }
    };
    let seen = tokio::time::timeout(DEADLINE, looking).await;
    assert!(seen.is_ok(), "{what}: not within {DEADLINE:?}");
}

/// A command that has stored as many parts as it may.
async fn halfway(store: &Store, command: &mut Command, parts: u64) -> Child {
    let enough = store.stored_parts() + parts;
    store.allow(parts);
    let mut child = command.spawn().unwrap();
    until("parts are stored", &mut child, || {
        store.stored_parts() >= enough
    })
    .await;
    child
}

fn interrupt(child: &Child) {
    let id = Pid::from_raw(child.id().unwrap() as i32).unwrap();
    kill_process(id, Signal::INT).unwrap();
}

#[tokio::test]
async fn an_interrupt_leaves_neither_object_nor_parts() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::start(Setup::default()).await.unwrap();
    let raw = disk(home.path(), 96);
    let mut command = hcs(home.path(), &store, &raw, OBJECT);
    let child = halfway(&store, &mut command, 3).await;
    assert_eq!(store.uploads().len(), 1);
    interrupt(&child);
    let (code, event) = ended(child).await;
    assert_eq!((code, &event["reason"]), (Some(1), &"Cancelled".into()));
    assert_eq!((store.uploads(), store.objects()), (vec![], vec![]));
    let state = home.path().join(".local/state/hypercloud-storage");
    assert!(!state.exists(), "nothing is kept of what is not resumed");
}

#[tokio::test]
async fn an_export_goes_on_from_its_parts_where_it_was_asked_to() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::start(Setup::default()).await.unwrap();
    let raw = disk(home.path(), 160);
    let journals = home.path().join(".local/state/hypercloud-storage/exports");
    let kept = || std::fs::read_dir(&journals).map_or(0, Iterator::count);
    let resumed = || {
        let mut command = hcs(home.path(), &store, &raw, OBJECT);
        command.args(["--resume", "--digest"]);
        command
    };
    // Killed without warning, then interrupted.
    let mut child = halfway(&store, &mut resumed(), 6).await;
    until("something is kept", &mut child, || kept() > 0).await;
    child.kill().await.unwrap();
    let child = halfway(&store, &mut resumed(), 4).await;
    interrupt(&child);
    let (code, event) = ended(child).await;
    assert_eq!((code, &event["reason"]), (Some(1), &"Cancelled".into()));
    let parts: usize = store
        .uploads()
        .iter()
        .map(|upload| upload.parts.len())
        .sum();
    assert!(parts > 0 && kept() == 1, "{parts} parts are kept");
    let text = std::fs::read_dir(&journals)
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let text = std::fs::read_to_string(text.path()).unwrap();
    assert!(!text.contains(KEYS.0) && !text.contains(KEYS.1));

    store.allow(1000);
    let (code, done) = run(&mut resumed()).await;
    assert_eq!((code, &done["event"]), (Some(0), &"done".into()), "{done}");
    assert_eq!(done["digest"], sha256(&raw));
    judge_object(&store, &raw, "qcow2");
    assert_eq!((store.uploads(), kept()), (vec![], 0));
    let needed = store.object(KEY).unwrap().len() as u64 >> 23;
    let stored = store.stored_parts();
    assert!(
        stored < needed + 12,
        "{stored} parts stored for about {needed}"
    );
}

#[tokio::test]
async fn what_cannot_be_discarded_is_said() {
    let home = tempfile::tempdir().unwrap();
    let refusing = |parts: &hyper::http::request::Parts, _| {
        let refused = parts.method == hyper::Method::DELETE;
        refused.then(|| test_store::refusal(403, "AccessDenied", ""))
    };
    let setup = Setup::default().twisted(refusing);
    let store = Store::start(setup).await.unwrap();
    let raw = disk(home.path(), 64);
    let mut command = hcs(home.path(), &store, &raw, OBJECT);
    let child = halfway(&store, &mut command, 2).await;
    let upload = store.uploads().remove(0).id;
    interrupt(&child);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let lines = String::from_utf8(output.stdout).unwrap();
    let left = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|line| line["event"] == "left");
    assert_eq!(left.expect("it is said")["upload"], upload, "{lines}");
}
