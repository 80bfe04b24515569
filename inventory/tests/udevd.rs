//! A device that comes under a real udevd, which has mounts and a network of
//! its own here, so that no other device of the machine is touched. It is
//! watched where udevd's own events come, and from another network namespace,
//! as an agent's pod has it, where they do not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hypercloud_inventory::watch::Watch;
use hypercloud_inventory::{Opened, Opener, Policy, Tree, classify, snapshot, walk};
use rustix::thread::{UnshareFlags, unshare_unsafe};

const UDEVD: &str = "/lib/systemd/systemd-udevd";
const INSIDE: &str = "INVENTORY_TEST_INSIDE";
/// How long udevd may take to start, and to say what it knows, on a busy
/// machine.
const LIMIT: Duration = Duration::from_secs(30);
/// One udevd at a time: each hears of the other's device.
static TURN: Mutex<()> = Mutex::new(());

/// Opens nothing: what udev says has to be enough.
struct Shut;

impl Opener for Shut {
    fn open(&self, _: &Path, _: Opened, _: &snapshot::Seen) -> snapshot::Probe {
        snapshot::Probe::NotMade
    }
}

#[test]
fn what_udev_says_is_there_when_a_new_device_is_told() {
    alone(
        "what_udev_says_is_there_when_a_new_device_is_told",
        |tree| Watch::begin(tree).unwrap(),
    );
}

#[test]
fn what_udev_says_is_there_where_its_events_do_not_come() {
    alone(
        "what_udev_says_is_there_where_its_events_do_not_come",
        |tree| {
            std::thread::scope(|scope| {
                let elsewhere = scope.spawn(|| {
                    // SAFETY: this thread has no file descriptors of its own that
                    // the others would miss.
                    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
                    Watch::begin(tree).unwrap()
                });
                elsewhere.join().unwrap()
            })
        },
    );
}

/// Runs the test in a process with mounts and a network of its own.
fn alone(test: &str, begin: fn(&Tree) -> Watch) {
    if std::env::var_os(INSIDE).is_some() {
        inside(begin);
        return;
    }
    if !rustix::process::geteuid().is_root() || !Path::new(UDEVD).exists() {
        println!("skipped: this needs root, and Debian's package udev");
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new("unshare")
        .args(["--mount", "--net", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .env(INSIDE, "yes")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Ends with its test.
struct Udevd(Child);

impl Drop for Udevd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

fn inside(begin_watch: fn(&Tree) -> Watch) {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk-of-the-udev-test");
    File::create(&disk).unwrap().set_len(6 << 30).unwrap();
    tool("mkswap", &[disk.to_str().unwrap()]);
    fs::create_dir_all("/dev/disk").unwrap();
    for folder in ["/run", "/dev/disk", "/usr/lib/udev/rules.d", "/etc/udev"] {
        if Path::new(folder).is_dir() {
            tool("mount", &["-t", "tmpfs", "tmpfs", folder]);
        }
    }
    fs::write(
        "/usr/lib/udev/rules.d/60-test.rules",
        "SUBSYSTEM==\"block\", ATTR{loop/backing_file}==\"*/disk-of-the-udev-test\", \
         IMPORT{builtin}=\"blkid\", SYMLINK+=\"disk/by-id/test-$kernel\"\n",
    )
    .unwrap();
    let _udevd = Udevd(Command::new(UDEVD).stdout(Stdio::null()).spawn().unwrap());
    let begin = Instant::now();
    let mut watch = begin_watch(&Tree::live());
    while !Path::new("/run/udev/control").exists() {
        assert!(begin.elapsed() < LIMIT, "udevd does not start");
        watch.wait(Duration::from_millis(50)).unwrap();
    }

    let device = Loop(tool(
        "losetup",
        &["--find", "--show", disk.to_str().unwrap()],
    ));
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < LIMIT, "it was not told in time");
        if watch.wait(Duration::from_secs(2)).unwrap().is_none() {
            continue;
        }
        let snapshot = walk(&Tree::live(), &Shut).unwrap();
        let inventory = classify(&snapshot, &Policy::default());
        let Some(found) = inventory
            .devices
            .iter()
            .find(|found| found.path == device.0 && found.size > 0)
        else {
            continue;
        };
        // The first time that it is there, so is what udev says of it; but
        // a udevd that gets no turn for long is not waited for.
        let link = format!("/dev/disk/by-id/test-{}", found.name);
        if !found.identity.links.contains(&link) {
            println!("without its link after {:?}", begin.elapsed());
            continue;
        }
        assert_eq!(found.identity.by_id, Some(link));
        let held = found.file_system.as_ref().map(|held| held.kind.as_str());
        assert_eq!(held, Some("swap"), "{found:?}");
        return;
    }
}
