//! Objects as others fetch them: by plain HTTP, and by Amazon's own tool; and
//! what qemu-img says of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use test_store::{KEYS, Store};

use crate::disk;

/// Runs a program; what it printed.
fn run(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .output()
        .with_context(|| format!("{command:?} does not start"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Fetches `url` into a file, without any credentials but what is in it. The
/// connection is made to `store`, whatever name is in the address.
pub fn by_http(store: &Store, url: &str, path: &Path) -> anyhow::Result<()> {
    let to = format!("::{}:{}", store.address.ip(), store.address.port());
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*"]);
    curl.args(["--connect-to", &to, "--output"])
        .arg(path)
        .arg(url);
    run(&mut curl).map(drop)
}

/// Amazon's tool with the store's keys and these words.
pub fn aws(store: &Store, words: &[&str]) -> anyhow::Result<String> {
    let program = std::env::var_os("HCS_E2E_AWS").map(PathBuf::from);
    let program = program.context("HCS_E2E_AWS names no aws; `make e2e` installs one")?;
    let mut aws = Command::new(program);
    aws.args(["--endpoint-url", &store.endpoint()]).args(words);
    aws.env("AWS_ACCESS_KEY_ID", KEYS.0)
        .env("AWS_SECRET_ACCESS_KEY", KEYS.1)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_CONFIG_FILE", "/dev/null")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
    run(&mut aws)
}

/// Fetches `s3://bucket/key` by Amazon's tool into a file.
pub fn by_aws(store: &Store, url: &str, path: &Path) -> anyhow::Result<()> {
    let path = path.to_str().context("a path that is no text")?;
    aws(store, &["s3", "cp", "--only-show-errors", url, path]).map(drop)
}

/// Asserts that the file is a sound image of `format` with the content of
/// the qcow2 at `original`; SHA-256 of the content.
pub fn same_disk(path: &Path, format: &str, original: &Path) -> anyhow::Result<String> {
    if format == "qcow2" {
        // Leaks make it fail, too.
        disk::qemu_img(&["check", "-q", "-f", format], &[path])?;
    }
    let compare = ["compare", "-q", "-f", format, "-F", "qcow2"];
    disk::qemu_img(&compare, &[path, original])?;
    content(path, format)
}

/// SHA-256 of the disk in the image at `path`.
pub fn content(path: &Path, format: &str) -> anyhow::Result<String> {
    let folder = tempfile::tempdir()?;
    let raw = folder.path().join("raw");
    disk::qemu_img(&["convert", "-f", format, "-O", "raw"], &[path, &raw])?;
    disk::file_sha256(&raw)
}

/// The folder with this project's programs.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let folder = std::env::var_os("HCS_E2E_PROGRAMS").map(PathBuf::from);
    let folder = folder.context("HCS_E2E_PROGRAMS names no folder; `make e2e` sets it")?;
    Ok(folder.join(name))
}

/// Runs this project's program `name`; what it printed.
pub fn own(name: &str, words: &[&str]) -> anyhow::Result<String> {
    run(Command::new(program(name)?).args(words))
}
