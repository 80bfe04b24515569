//! Volumes that a test fills and reads, by pods that mount them.

use anyhow::Context;

use crate::cluster::Scope;
use crate::{reader, rollback};

/// How a volume of a mode is written to and read.
#[derive(Clone, Copy)]
pub struct Mode {
    /// Its name.
    pub name: &'static str,
    /// The disk inside the reader's pod.
    pub disk: &'static str,
}

/// A device.
pub const BLOCK: Mode = Mode {
    name: "Block",
    disk: "/dev/volume",
};
/// A file on a file system.
pub const FILESYSTEM: Mode = Mode {
    name: "Filesystem",
    disk: "/volume/disk.img",
};

impl Mode {
    /// Runs `script` in a pod on the claim, in which `$DISK` is the disk.
    pub async fn run(self, scope: &Scope, claim: &str, script: &str) -> anyhow::Result<String> {
        let script = format!("set -e -o pipefail; DISK={}; {script}", self.disk);
        reader::run(scope, claim, self.name, &script).await
    }

    /// SHA-256 of the first `mebibytes` of the disk.
    pub async fn sha256(
        self,
        scope: &Scope,
        claim: &str,
        mebibytes: u64,
    ) -> anyhow::Result<String> {
        let script = format!("head -c {} $DISK | sha256sum", mebibytes << 20);
        let said = self.run(scope, claim, &script).await?;
        let digest = said.split_whitespace().next();
        digest.map(str::to_owned).context("no digest was printed")
    }

    /// A disk of `mebibytes` with noise in its first `data` mebibytes and at
    /// its end, and zeros between them.
    pub async fn fill(
        self,
        scope: &Scope,
        claim: &str,
        mebibytes: u64,
        data: u64,
    ) -> anyhow::Result<()> {
        let room = if self.name == "Block" {
            mebibytes
        } else {
            mebibytes + 64
        };
        rollback::claim(scope, claim, self.name, room).await?;
        let create = if self.name == "Block" {
            String::new()
        } else {
            format!("truncate -s {mebibytes}M $DISK; chmod 0660 $DISK;")
        };
        let last = mebibytes - 1;
        let script = format!(
            "{create} dd if=/dev/urandom of=$DISK bs=1M count={data} conv=notrunc; \
             dd if=/dev/urandom of=$DISK bs=1M count=1 seek={last} conv=notrunc; sync"
        );
        self.run(scope, claim, &script).await?;
        Ok(())
    }
}
