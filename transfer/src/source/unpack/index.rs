//! The index of an xz file: where its blocks are ("The .xz File Format",
//! sections 2.1 and 4).
//!
//! Each block can be unpacked without the ones before it. Functions of bytes
//! only; `None` is for whatever is not as it should be, as unpacking from the
//! beginning will tell what is wrong.

use flate2::Crc;
use hypercloud_disk::Extent;

/// Bytes of a stream's header, and of its footer.
pub(super) const FRAME: u64 = 12;
/// The largest index that is read: room for a hundred thousand blocks.
const MOST_INDEX: u64 = 1 << 20;
/// The longest header of a block.
pub(super) const BLOCK_HEADER: u64 = 1024;

const HEADER_MAGIC: &[u8] = b"\xfd7zXZ\0";
const FOOTER_MAGIC: &[u8] = b"YZ";
const LZMA2: u64 = 0x21;

/// What kind of checks a stream has.
pub(super) type Flags = [u8; 2];

/// The end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) index_size: u64,
    pub(super) flags: Flags,
}

/// A block by its sizes: packed, without what fills it up to a multiple of
/// four, and plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) unpadded: u64,
    pub(super) plain: u64,
}

/// A block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Where it is in the source.
    pub(super) packed: Extent,
    /// Where its bytes belong.
    pub(crate) plain: Extent,
    pub(super) unpadded: u64,
    pub(super) flags: Flags,
}

fn crc(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_le_bytes()
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn put_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Reads the header of a stream.
pub(super) fn header(bytes: &[u8]) -> Option<Flags> {
    let (magic, rest) = bytes.split_at_checked(6)?;
    let flags = *rest.first_chunk::<2>()?;
    let sum = rest.get(2..6)?;
    (magic == HEADER_MAGIC && sum == crc(&flags)).then_some(flags)
}

/// Reads the footer of a stream, all of it.
pub(super) fn footer(bytes: &[u8]) -> Option<Footer> {
    let (sum, rest) = bytes.split_at_checked(4)?;
    let (body, magic) = rest.split_at_checked(6)?;
    let (size, flags) = body.split_at_checked(4)?;
    let index_size = (u64::from(u32::from_le_bytes(*size.first_chunk()?)) + 1) * 4;
    let sound = magic == FOOTER_MAGIC && sum == crc(body) && index_size <= MOST_INDEX;
    sound.then_some(Footer {
        index_size,
        flags: *flags.first_chunk()?,
    })
}

/// Reads an index, all of it.
pub(super) fn records(bytes: &[u8]) -> Option<Vec<Record>> {
    let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    if sum != crc(body) {
        return None;
    }
    let mut rest = body.strip_prefix(&[0])?;
    let count = number(&mut rest)?;
    // Each takes two bytes at least.
    if count > rest.len() as u64 / 2 {
        return None;
    }
    let mut records = Vec::with_capacity(count as usize);
    for _ in 0..count {
        records.push(Record {
            unpadded: number(&mut rest)?,
            plain: number(&mut rest)?,
        });
    }
    (rest.len() < 4 && rest.iter().all(|byte| *byte == 0)).then_some(records)
}

/// The dictionary that a block needs, by its header, in bytes.
pub(super) fn dictionary(header: &[u8]) -> Option<u64> {
    let size = (usize::from(*header.first()?) + 1) * 4;
    let flags = *header.get(1)?;
    let mut rest = header.get(2..size)?;
    for bit in [0x40, 0x80] {
        if flags & bit != 0 {
            number(&mut rest)?;
        }
    }
    for _ in 0..=flags & 3 {
        let id = number(&mut rest)?;
        let length = usize::try_from(number(&mut rest)?).ok()?;
        let (properties, behind) = rest.split_at_checked(length)?;
        rest = behind;
        if id == LZMA2 {
            let bits = u32::from(*properties.first()?);
            return (bits < 40).then(|| u64::from(2 | (bits & 1)) << (bits / 2 + 11));
        }
    }
    None
}

impl Block {
    /// What has to stand before the block for it to be a stream of its own.
    pub(super) fn before(&self) -> Vec<u8> {
        [HEADER_MAGIC, &self.flags, &crc(&self.flags)].concat()
    }

    /// What has to stand behind it.
    pub(super) fn behind(&self) -> Vec<u8> {
        let mut index = vec![0];
        put_number(&mut index, 1);
        put_number(&mut index, self.unpadded);
        put_number(&mut index, self.plain.length);
        index.resize(index.len().next_multiple_of(4), 0);
        index.extend(crc(&index));
        let size = (index.len() / 4 - 1) as u32;
        let body = [&size.to_le_bytes()[..], &self.flags].concat();
        [&index, &crc(&body)[..], &body, FOOTER_MAGIC].concat()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_put_around_a_block_reads_as_it_should(
            unpadded in 1u64..1 << 62,
            plain in 0u64..1 << 62,
        ) {
            let block = Block {
                packed: Extent { start: 12, length: 0 },
                plain: Extent { start: 0, length: plain },
                unpadded,
                flags: [0, 4],
            };
            prop_assert_eq!(header(&block.before()), Some([0, 4]));
            let behind = block.behind();
            let (index, end) = behind.split_at(behind.len() - FRAME as usize);
            let index_size = index.len() as u64;
            prop_assert_eq!(footer(end), Some(Footer { index_size, flags: [0, 4] }));
            prop_assert_eq!(records(index), Some(vec![Record { unpadded, plain }]));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let sum = crc(&bytes);
            let _ = records(&[&bytes[..], &sum].concat());
            let _ = (header(&bytes), footer(&bytes), dictionary(&bytes), records(&bytes));
        }
    }

    #[test]
    fn what_xz_writes_is_read() {
        // As of `xz -6`: CRC64, LZMA2 with 8 MiB.
        let head = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46\x02\0\x21\x01\x16\0\0\0\x74\x2f\xe5\xa3";
        assert_eq!(header(head), Some([0, 4]));
        assert_eq!(dictionary(&head[12..]), Some(8 << 20));
        let mut other = head.to_vec();
        other[7] ^= 1;
        assert_eq!(header(&other), None);
    }
}
