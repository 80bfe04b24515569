//! What a volume holds, as a pod that mounts it sees it. A claim that no pod
//! but the coordinator's may mount is read by a pod that its account makes.

use std::time::Duration;

use anyhow::Context;

use crate::cluster::Scope;
use crate::pod::Once;
use crate::system::shell_image;

/// How long a pod may take to start and to read a small disk.
const LIMIT: Duration = Duration::from_secs(180);

/// SHA-256 of the first `size` bytes of the raw device behind `claim`.
pub async fn block_sha256(scope: &Scope, claim: &str, size: u64) -> anyhow::Result<String> {
    let script = format!("set -o pipefail; head -c {size} /dev/volume | sha256sum");
    first_word(&run(scope, claim, "Block", &script).await?)
}

/// SHA-256 of `disk.img` on the file system behind `claim`, and what `stat`
/// says of it: owner, group, mode, size.
pub async fn file_sha256(scope: &Scope, claim: &str) -> anyhow::Result<(String, String)> {
    let script = "sha256sum < /volume/disk.img; stat -c '%u:%g %a %s' /volume/disk.img; \
                  ls -A /volume | grep -v -e lost+found -e '^disk.img$' || true";
    let output = run(scope, claim, "Filesystem", script).await?;
    let stat = output.lines().skip(1).collect::<Vec<_>>().join("\n");
    Ok((first_word(&output)?, stat))
}

/// Bytes that `disk.img` takes on the file system behind `claim`.
pub async fn file_room(scope: &Scope, claim: &str) -> anyhow::Result<u64> {
    let script = "echo $(( $(stat -c '%b * %B' /volume/disk.img) ))";
    let output = run(scope, claim, "Filesystem", script).await?;
    Ok(first_word(&output)?.parse()?)
}

fn first_word(text: &str) -> anyhow::Result<String> {
    text.split_whitespace()
        .next()
        .map(str::to_owned)
        .context("the pod printed nothing")
}

/// Runs a shell script in a pod that mounts `claim`; what it printed.
pub async fn run(scope: &Scope, claim: &str, mode: &str, script: &str) -> anyhow::Result<String> {
    // The owner of a virtual machine's disk, so that what he may read is
    // read as he reads it.
    let reader = Once {
        name: "reader",
        image: shell_image(),
        command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        claim,
        mode,
        limit: LIMIT,
    };
    let end = reader.run(scope).await?;
    anyhow::ensure!(end.state.exit_code == 0, "the reader failed: {}", end.logs);
    Ok(end.logs)
}
