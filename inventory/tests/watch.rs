//! Devices that come, change and go while they are watched. Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hypercloud_inventory::watch::{Change, Watch};
use hypercloud_inventory::{Opened, Opener, Policy, Tree, classify, snapshot, walk};

/// Opens nothing: what other loop devices hold is not looked at.
struct Shut;

impl Opener for Shut {
    fn open(&self, _: &Path, _: Opened, _: &snapshot::Seen) -> snapshot::Probe {
        snapshot::Probe::NotMade
    }
}

fn losetup(arguments: &[&str]) -> String {
    let output = Command::new("losetup").args(arguments).output().unwrap();
    assert!(output.status.success(), "losetup {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// How soon a change has to be seen on a busy machine.
const SOON: Duration = Duration::from_secs(15);

/// Whether the file is behind this device: its name may be another's by now.
fn is_of(name: &str, file: &Path) -> bool {
    let told = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
    told.is_ok_and(|told| Path::new(told.trim_end()) == file)
}

/// Size of the loop device of a file, 0 where it has none.
fn size(file: &Path) -> u64 {
    let file = std::fs::canonicalize(file).unwrap();
    let inventory = classify(&walk(&Tree::live(), &Shut).unwrap(), &Policy::default());
    let mut devices = inventory.devices.iter();
    let found = devices.find(|device| is_of(&device.name, &file));
    found.map(|device| device.size).unwrap_or_default()
}

/// Waits until `right` holds after some change, and says how long that took.
fn until(watch: &mut Watch, mut right: impl FnMut(Change) -> bool) -> Duration {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        if let Some(change) = watch.wait(Duration::from_secs(1)).unwrap()
            && right(change)
        {
            return begin.elapsed();
        }
    }
    panic!("no change made it right");
}

/// A loop device that goes with its test.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_device_that_comes_grows_and_goes_is_seen_in_time() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: loop devices need root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let file = File::create(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    let mut watch = Watch::begin(&Tree::live()).unwrap();

    let device = Loop(losetup(&["--find", "--show", path.to_str().unwrap()]));
    let took = until(&mut watch, |change| {
        change.events > 0 && size(&path) == 1 << 30
    });
    assert!(took < SOON, "it came after {took:?}");

    file.set_len(2 << 30).unwrap();
    losetup(&["--set-capacity", &device.0]);
    let took = until(&mut watch, |_| size(&path) == 2 << 30);
    assert!(took < SOON, "it grew after {took:?}");

    drop(device);
    let took = until(&mut watch, |_| size(&path) == 0);
    assert!(took < SOON, "it went after {took:?}");
}

#[test]
fn a_storm_of_events_is_a_look_a_second_and_its_end_is_seen() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: loop devices need root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let file = File::create(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    let device = Loop(losetup(&["--find", "--show", path.to_str().unwrap()]));
    let mut watch = Watch::begin(&Tree::live()).unwrap();
    let event = format!("/sys/block/{}/uevent", device.0.trim_start_matches("/dev/"));
    let name = device.0.clone();
    let storm = std::thread::spawn(move || {
        for _ in 0..20_000 {
            std::fs::write(&event, "change").unwrap();
        }
        file.set_len(2 << 30).unwrap();
        losetup(&["--set-capacity", &name]);
    });
    let begin = Instant::now();
    let (mut looks, mut events) = (0, 0);
    until(&mut watch, |change| {
        looks += 1;
        events += change.events;
        size(&path) == 2 << 30
    });
    storm.join().unwrap();
    assert!(looks * 20 < events, "{looks} looks for {events} events");
    println!("{events} events, {looks} looks in {:?}", begin.elapsed());
}

#[test]
fn a_mount_is_a_change() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: mounts need root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (at, root) = (dir.path().join("at"), dir.path().join("root"));
    std::fs::create_dir_all(root.join("proc")).unwrap();
    std::fs::create_dir(&at).unwrap();
    // The tests may run in a container, whose mounts PID 1 does not have.
    std::os::unix::fs::symlink("/proc/self", root.join("proc/1")).unwrap();
    let at = at.to_str().unwrap();
    let mounted = || {
        std::fs::read_to_string("/proc/self/mountinfo")
            .unwrap()
            .contains(at)
    };
    let mut watch = Watch::begin(&Tree::live_below(&root)).unwrap();
    assert!(
        Command::new("mount")
            .args(["-t", "tmpfs", "tmpfs", at])
            .status()
            .unwrap()
            .success()
    );
    let took = until(&mut watch, |change| change.usage && mounted());
    assert!(Command::new("umount").arg(at).status().unwrap().success());
    assert!(took < SOON, "{took:?}");
    until(&mut watch, |change| change.usage && !mounted());
}

/// As an agent in a pod sees the mounts of its node.
#[test]
fn a_mount_in_another_namespace_is_a_change() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;

    if !rustix::process::geteuid().is_root() {
        println!("skipped: mounts need root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (at, root) = (dir.path().join("at"), dir.path().join("root"));
    std::fs::create_dir_all(root.join("proc")).unwrap();
    std::fs::create_dir(&at).unwrap();
    let at = at.to_str().unwrap();
    let script =
        "echo ready; read word; mount -t tmpfs tmpfs \"$0\"; read word; umount \"$0\"; read word";
    let mut other = Command::new("unshare")
        .args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            at,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(other.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let process = format!("/proc/{}", other.id());
    std::os::unix::fs::symlink(&process, root.join("proc/1")).unwrap();
    let mounted = || {
        std::fs::read_to_string(format!("{process}/mountinfo"))
            .unwrap()
            .contains(at)
    };
    let mut watch = Watch::begin(&Tree::live_below(&root)).unwrap();
    let mut stdin = other.stdin.take().unwrap();
    for expected in [true, false] {
        writeln!(stdin, "next").unwrap();
        let took = until(&mut watch, |change| change.usage && mounted() == expected);
        assert!(took < SOON, "{took:?}");
    }
    drop(stdin);
    other.wait().unwrap();
}

/// Where no udev tells of writers, and whoever asks for a look.
#[test]
fn a_writer_and_a_bell_are_changes() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: loop devices need root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    File::create(&path).unwrap().set_len(1 << 30).unwrap();
    let device = Loop(losetup(&["--find", "--show", path.to_str().unwrap()]));
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink("/dev", root.join("dev")).unwrap();
    // No events, so that nothing else is heard of the device.
    let mut watch = Watch::without_events(&Tree::live_below(&root)).unwrap();
    let name = device.0.trim_start_matches("/dev/");
    assert!(watch.mind([name].into_iter()));
    assert!(!watch.mind([name].into_iter()));
    drop(File::options().write(true).open(&device.0).unwrap());
    let took = until(&mut watch, |change| change.written);
    assert!(took < SOON, "{took:?}");
    // A reader is none. Whoever else looks for a free loop device may have
    // opened this one to write when it came, so there is more than one try.
    let is_quiet = (0..20).any(|_| {
        drop(File::open(&device.0).unwrap());
        watch.wait(Duration::from_millis(300)).unwrap().is_none()
    });
    assert!(is_quiet, "a reader is told as a writer");

    let bell = watch.bell();
    let rings = std::thread::spawn(move || bell.ring());
    until(&mut watch, |change| change.asked && !change.written);
    rings.join().unwrap();
}
