//! How large a disk's claim has to be. Pure.
//!
//! Invariant: what is in the source fits; what the user asks for can only
//! raise it.

use hypercloud_api::VolumeMode;

use crate::image::size::{self, Demand, Overhead, SizeError};

const MIB: u64 = 1 << 20;

/// What a claim is sized by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Bytes that the source's volume has; 0 where nobody says it.
    pub source: u64,
    /// How the source's volume is presented.
    pub from: VolumeMode,
    /// How the disk's volume is presented.
    pub to: VolumeMode,
    /// Bytes that the user asks for at least; 0 for whatever is needed.
    pub asked: u64,
    /// Share of a file system that is not there for the disk.
    pub overhead: Overhead,
}

/// What a claim asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes, a whole number of MiB.
    pub bytes: u64,
    /// What the user asked for, where that was too little.
    pub raised_from: Option<u64>,
}

/// What the claim has to ask for.
///
/// A file of the size of a device needs a file system with more room than
/// the device has; all other volumes are as large as their source.
pub fn request(needs: &Needs) -> Result<Request, SizeError> {
    let known = needs.source > 0;
    let file_of_device =
        known && (needs.from, needs.to) == (VolumeMode::Block, VolumeMode::Filesystem);
    let demand = |virtual_size, at_least| Demand {
        virtual_size,
        mode: if file_of_device {
            needs.to
        } else {
            VolumeMode::Block
        },
        at_least,
        overhead: needs.overhead,
    };
    let source = known.then_some(needs.source);
    let bytes = size::claim(&demand(source, needs.asked))?;
    let least = source.map_or(Ok(0), |_| size::claim(&demand(source, 0)))?;
    // Rounding up is no raising.
    let asked = needs.asked.next_multiple_of(MIB);
    let raised = needs.asked > 0 && asked < least;
    Ok(Request {
        bytes,
        raised_from: raised.then_some(needs.asked),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use VolumeMode::{Block, Filesystem};
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn needs(source: u64, from: VolumeMode, to: VolumeMode, asked: u64) -> Needs {
        Needs {
            source,
            from,
            to,
            asked,
            overhead: Overhead::DEFAULT,
        }
    }

    fn of(needs: Needs) -> (u64, Option<u64>) {
        let request = request(&needs).unwrap();
        (request.bytes, request.raised_from)
    }

    #[test]
    fn a_disk_is_as_large_as_its_source_or_larger() {
        assert_eq!(of(needs(10 * GIB, Block, Block, 0)), (10 * GIB, None));
        assert_eq!(
            of(needs(10 * GIB, Block, Block, 12 * GIB)),
            (12 * GIB, None)
        );
        assert_eq!(of(needs(GIB, Filesystem, Filesystem, 0)), (GIB, None));
        assert_eq!(of(needs(GIB, Filesystem, Block, 0)), (GIB, None));
    }

    #[test]
    fn too_little_is_raised_and_told() {
        assert_eq!(
            of(needs(10 * GIB, Block, Block, 2 * GIB)),
            (10 * GIB, Some(2 * GIB))
        );
        assert_eq!(of(needs(GIB, Block, Block, GIB - 5)), (GIB, None));
    }

    #[test]
    fn a_file_of_a_device_needs_room_for_its_file_system() {
        // 10 GiB / 0.945 = 10835.98 MiB.
        let (bytes, raised) = of(needs(10 * GIB, Block, Filesystem, 10 * GIB));
        assert_eq!((bytes, raised), (10_836 * MIB, Some(10 * GIB)));
    }

    #[test]
    fn a_source_of_unknown_size_needs_a_word() {
        assert_eq!(request(&needs(0, Block, Block, 0)), Err(SizeError::Unknown));
        assert_eq!(of(needs(0, Block, Filesystem, 3 * GIB)), (3 * GIB, None));
    }

    proptest! {
        #[test]
        fn the_source_always_fits(
            source in 1..(1u64 << 60),
            asked in 0..(1u64 << 60),
            from_block: bool,
            to_block: bool,
        ) {
            let mode = |block| if block { Block } else { Filesystem };
            let needs = needs(source, mode(from_block), mode(to_block), asked);
            let request = request(&needs).unwrap();
            prop_assert!(request.bytes >= source && request.bytes >= asked);
            prop_assert_eq!(request.bytes % MIB, 0);
            prop_assert_eq!(request.raised_from.is_some(), asked > 0 && request.bytes > asked.next_multiple_of(MIB));
        }
    }
}
