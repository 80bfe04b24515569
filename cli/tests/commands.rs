//! The binaries, run as a user runs them.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::{Command, Output};

fn hcs(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hcs"))
        .args(arguments)
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn qcow2(directory: &Path) -> std::path::PathBuf {
    let raw = directory.join("source.raw");
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n / 1000) as u8).collect();
    std::fs::write(&raw, bytes).unwrap();
    let image = directory.join("source.qcow2");
    let status = Command::new("qemu-img")
        .args(["convert", "-f", "raw", "-O", "qcow2", "-c"])
        .args([&raw, &image])
        .status()
        .expect("qemu-img is missing; install qemu-utils");
    assert!(status.success());
    image
}

#[test]
fn an_image_is_probed_and_imported() {
    let directory = tempfile::tempdir().unwrap();
    let image = qcow2(directory.path());
    let image = image.to_str().unwrap();
    let output = hcs(&["image", "probe", image]);
    assert_eq!(code(&output), 0);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("qcow2") && text.contains("3000320 bytes"),
        "{text}"
    );
    let output = hcs(&["image", "probe", image, "-o", "json"]);
    let facts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(facts["format"], "qcow2");
    assert_eq!(facts["virtualSize"], 3_000_320);

    let target = directory.path().join("disk.img");
    let path = target.to_str().unwrap();
    let output = hcs(&["image", "import", image, path, "-o", "json"]);
    assert_eq!(code(&output), 0);
    let events: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.first().unwrap()["event"], "facts");
    assert_eq!(events.last().unwrap()["event"], "done");
    assert_eq!(events.last().unwrap()["done"], 3_000_320);
    let mut expected = std::fs::read(directory.path().join("source.raw")).unwrap();
    expected.resize(3_000_320, 0);
    assert!(std::fs::read(&target).unwrap() == expected);

    assert_eq!(
        code(&hcs(&["image", "import", image, path])),
        2,
        "it exists"
    );
    assert_eq!(
        code(&hcs(&["image", "import", image, path, "--overwrite"])),
        0
    );
}

#[test]
fn exit_codes_tell_whose_doing_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let page = file("page", b"<!doctype html>");
    let good = file("good", &[1; 512]);
    let target = directory.path().join("disk.img");
    let target = target.to_str().unwrap();
    for (expected, arguments) in [
        (0, vec!["--help"]),
        (0, vec!["--version"]),
        (2, vec![]),
        (2, vec!["image", "import", &good]),
        (2, vec!["image", "probe", "ftp://a.example/x"]),
        (2, vec!["image", "import", &good, "/"]),
        (3, vec!["image", "probe", &page]),
        (3, vec!["image", "import", &page, target]),
        (4, vec!["image", "probe", "/no/such/file"]),
        (
            5,
            vec!["image", "import", &good, "/no/such/directory/disk.img"],
        ),
    ] {
        let output = hcs(&arguments);
        assert_eq!(code(&output), expected, "{arguments:?}");
        if expected > 2 {
            assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "));
        }
    }
    let output = hcs(&["image", "probe", &page, "-o", "json"]);
    let event: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&event["event"], &event["reason"]),
        (&"failed".into(), &"WebPage".into())
    );
}

#[test]
fn the_plugin_offers_the_same() {
    let output = Command::new(env!("CARGO_BIN_EXE_kubectl-hcs"))
        .args(["image", "--help"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("kubectl hcs image") && text.contains("import"),
        "{text}"
    );
}

#[test]
fn what_the_image_was_said_to_be_is_held_against_it() {
    let directory = tempfile::tempdir().unwrap();
    let image = qcow2(directory.path());
    let image = image.to_str().unwrap();
    let target = directory.path().join("disk.img");
    let path = target.to_str().unwrap();
    let wrong = format!("sha256:{}", "0".repeat(64));
    for (words, reason) in [
        (["--format", "raw"], "FormatMismatch"),
        (["--checksum", &wrong], "ChecksumMismatch"),
    ] {
        let mut all = vec!["image", "import", image, path];
        all.extend(words);
        let output = hcs(&all);
        assert_eq!(code(&output), 3);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(reason), "{text}");
        assert!(!target.exists());
    }
    let output = hcs(&["image", "import", image, path, "--checksum", "md5:00"]);
    assert_eq!(code(&output), 2);
    let output = hcs(&["image", "import", image, path, "--format", "qcow2"]);
    assert_eq!(code(&output), 0);
}
