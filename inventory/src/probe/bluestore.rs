//! Labels of BlueStore, which older versions of libblkid and udev do not know.
//!
//! Since Ceph 19 a label is also kept at 1, 10, 100 and 1000 GiB, so that a
//! device whose beginning was wiped is still taken for an OSD's
//! (`BlueStore::_read_bdev_label`, `bdev_label_positions`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

pub(super) const MAGIC: &[u8] = b"bluestore block device\n";
const GIB: u64 = 1 << 30;
/// Where labels may begin, in bytes.
pub const POSITIONS: [u64; 5] = [0, GIB, 10 * GIB, 100 * GIB, 1000 * GIB];

/// Where labels begin, in bytes.
pub(super) fn labels(device: &File) -> io::Result<Vec<u64>> {
    labels_within(device, 0, u64::MAX)
}

/// The same for a part of the device.
pub(super) fn labels_within(device: &File, from: u64, length: u64) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for position in POSITIONS {
        if position >= length {
            break;
        }
        let position = from.saturating_add(position);
        let mut begin = [0; MAGIC.len()];
        match device.read_exact_at(&mut begin, position) {
            Ok(()) if begin == MAGIC => found.push(position),
            Ok(()) => {}
            // The device ends before.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_found_where_the_beginning_was_wiped() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(11 * GIB).unwrap();
        file.write_all_at(MAGIC, 10 * GIB).unwrap();
        assert_eq!(labels(&file).unwrap(), [10 * GIB]);
        file.write_all_at(MAGIC, 0).unwrap();
        assert_eq!(labels(&file).unwrap(), [0, 10 * GIB]);
    }

    #[test]
    fn a_short_device_has_no_label() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(labels(&file).unwrap(), Vec::<u64>::new());
    }
}
