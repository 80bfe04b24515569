//! A device that changes between the look at it and its opening. Needs root.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use hypercloud_inventory::snapshot::{Number, Seen};
use rustix::fs::{major, minor, stat};

use super::device::{Alone, OpenError};

fn losetup(arguments: &[&str]) -> String {
    let output = Command::new("losetup").args(arguments).output().unwrap();
    assert!(output.status.success(), "losetup {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A loop device that goes with its test.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            let _ = Command::new("losetup").args(["--detach", &self.0]).status();
        }
    }
}

impl Loop {
    fn seen(&self) -> Seen {
        let number = stat(self.0.as_str()).unwrap().st_rdev;
        let sequence = format!("/sys/block/{}/diskseq", self.0.trim_start_matches("/dev/"));
        Seen {
            name: "loop".into(),
            number: Some(Number {
                major: major(number),
                minor: minor(number),
            }),
            size: Some(64 << 20),
            disk_sequence: std::fs::read_to_string(sequence)
                .ok()
                .and_then(|text| text.trim().parse().ok()),
            ..Seen::default()
        }
    }

    fn open(&self, looked_at: &Seen) -> Result<Alone, OpenError> {
        Alone::open(Path::new(&self.0), looked_at)
    }
}

#[test]
fn only_the_device_that_was_looked_at_is_opened() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: loop devices need root");
        return;
    }
    // Somebody else may be given the name of the device meanwhile.
    assert!((0..20).any(|_| is_refused_as_another()));
}

fn is_refused_as_another() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = dir.path().join(name);
        File::create(&path).unwrap().set_len(64 << 20).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (one, other) = (file("one"), file("other"));
    let mut device = Loop(losetup(&["--find", "--show", &one]));
    let seen = device.seen();
    let another = |device: &Loop, seen: &Seen| match device.open(seen) {
        Err(OpenError::Another(what)) => what,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    };
    let smaller = Seen {
        size: Some(1 << 20),
        ..seen.clone()
    };
    assert_eq!(another(&device, &smaller), "its size differs");
    let elsewhere = Seen {
        number: Some(Number {
            major: 7,
            minor: 1 << 19,
        }),
        ..seen.clone()
    };
    assert_eq!(another(&device, &elsewhere), "its number differs");

    let alone = device.open(&seen).unwrap();
    assert!(matches!(device.open(&seen), Err(OpenError::Busy)));
    drop(alone);

    // The same name, number and size, and another file.
    losetup(&["--detach", &device.0]);
    let again = Command::new("losetup").args([&device.0, &other]).output();
    if !again.unwrap().status.success() {
        device.0.clear();
        return false;
    }
    assert_eq!(
        another(&device, &seen),
        "the kernel's number of the disk differs"
    );
    assert!(device.open(&device.seen()).is_ok());

    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&device.0, &link).unwrap();
    assert!(matches!(
        Alone::open(&link, &device.seen()),
        Err(OpenError::Failed(_))
    ));
    true
}
