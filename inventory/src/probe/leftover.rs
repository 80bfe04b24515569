//! Signatures with their places, for whoever removes them.

use std::fmt;
use std::fs::File;
use std::io;

use super::blkid::{Blkid, Range};
use super::bluestore;

/// A signature on a device, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leftover {
    /// libblkid's name of it, such as `ext4`, `LVM2_member` or `gpt`.
    pub kind: String,
    /// Where the bytes begin by which it is known; some are known otherwise.
    pub offset: Option<u64>,
    /// How many those bytes are.
    pub length: u64,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} at byte {offset}", self.kind),
            None => f.write_str(&self.kind),
        }
    }
}

/// Looks for signatures, with libblkid.
pub struct Leftovers {
    blkid: Blkid,
}

impl Leftovers {
    /// Loads the library.
    ///
    /// # Errors
    /// It is not there.
    pub fn load() -> Result<Self, String> {
        Blkid::load().map(|blkid| Self { blkid })
    }

    /// Every signature on the device, and every label of BlueStore.
    ///
    /// # Errors
    /// The device cannot be read.
    pub fn on(&self, device: &File) -> Result<Vec<Leftover>, String> {
        let found = self.blkid.leftovers(device, Range::default())?;
        with_labels(found, bluestore::labels(device))
    }

    /// Every signature within a part of the device, as on one of its
    /// partitions.
    ///
    /// # Errors
    /// The device cannot be read.
    pub fn within(&self, device: &File, offset: u64, length: u64) -> Result<Vec<Leftover>, String> {
        let found = self.blkid.leftovers(device, Range { offset, length })?;
        with_labels(found, bluestore::labels_within(device, offset, length))
    }
}

/// Adds the labels of BlueStore that libblkid does not know.
fn with_labels(
    mut found: Vec<Leftover>,
    labels: io::Result<Vec<u64>>,
) -> Result<Vec<Leftover>, String> {
    for offset in labels.map_err(|error| error.to_string())? {
        if !found.iter().any(|known| known.offset == Some(offset)) {
            found.push(Leftover {
                kind: "ceph_bluestore".into(),
                offset: Some(offset),
                length: bluestore::MAGIC.len() as u64,
            });
        }
    }
    Ok(found)
}
