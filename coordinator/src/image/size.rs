//! How large an image's claim has to be. Pure.
//!
//! Invariant: a claim of the size answered here holds the whole virtual
//! disk; what the user asks for can only raise it.

use hypercloud_api::VolumeMode;

const MIB: u64 = 1 << 20;

/// Room for a file system's own structures where a share of the size does
/// not reach. mke2fs takes, by default, 6.3 % for inode tables below 512 MiB
/// and 1.6 % above, and a journal of 64 MiB from 2 GiB on; measured on a
/// volume of 2168 MiB, 121 MiB were gone, more than 5.5 %. XFS has a log of
/// 64 MiB.
pub const FILESYSTEM_ALLOWANCE: u64 = 192 * MIB;

/// Largest size that a Kubernetes quantity can say.
const MAX: u64 = i64::MAX as u64;

/// A share in parts per million, below one half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead(u32);

impl Overhead {
    /// 5.5 %, the share by which KubeVirt reckons.
    pub const DEFAULT: Self = Self(55_000);

    /// `share` as a fraction, `0.055`.
    pub fn from_fraction(share: f64) -> Option<Self> {
        (0.0..0.5)
            .contains(&share)
            .then(|| Self((share * 1e6).round() as u32))
    }
}

/// What a claim is sized by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Size of the disk that a guest sees, in bytes, where it is known.
    pub virtual_size: Option<u64>,
    /// How the volume is presented.
    pub mode: VolumeMode,
    /// Bytes that the user asks for at least.
    pub at_least: u64,
    /// Share of a file system that is not there for the disk.
    pub overhead: Overhead,
}

/// Why there is no size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Nobody says how large the disk is.
    #[error(
        "the image tells the size of its disk only at its end: set pvc.storage to that size at least, in another image"
    )]
    Unknown,
    /// The disk is empty.
    #[error("the image's virtual size is 0")]
    Empty,
    /// No volume can be that large.
    #[error("a virtual size of {virtual_size} bytes is more than a volume can have")]
    TooLarge {
        /// Size of the disk in bytes.
        virtual_size: u64,
    },
}

impl SizeError {
    /// The error in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unknown => "SizeUnknown",
            Self::Empty => "ImageEmpty",
            Self::TooLarge { .. } => "ImageTooLarge",
        }
    }
}

/// Bytes that the claim has to ask for, a whole number of MiB.
///
/// Where nobody says how large the disk is, what the user asks for stands for
/// its size: a disk of that size has to fit, so a file system's own needs are
/// added to it as to any.
pub fn claim(demand: &Demand) -> Result<u64, SizeError> {
    let virtual_size = match (demand.virtual_size, demand.at_least) {
        (Some(0), _) => return Err(SizeError::Empty),
        (None, 0) => return Err(SizeError::Unknown),
        (Some(size), _) => size,
        (None, at_least) => at_least,
    };
    let wanted = match demand.mode {
        VolumeMode::Block => u128::from(virtual_size),
        VolumeMode::Filesystem => {
            let share = u128::from(1_000_000 - demand.overhead.0);
            let by_share = (u128::from(virtual_size) * 1_000_000).div_ceil(share);
            by_share.max(u128::from(virtual_size) + u128::from(FILESYSTEM_ALLOWANCE))
        }
    };
    let rounded = wanted
        .max(u128::from(demand.at_least))
        .next_multiple_of(u128::from(MIB));
    u64::try_from(rounded)
        .ok()
        .filter(|bytes| *bytes <= MAX)
        .ok_or(SizeError::TooLarge { virtual_size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn demand(virtual_size: u64, mode: VolumeMode) -> Demand {
        Demand {
            virtual_size: Some(virtual_size),
            mode,
            at_least: 0,
            overhead: Overhead::DEFAULT,
        }
    }

    #[test]
    fn a_block_claim_is_the_disk_rounded_up() {
        assert_eq!(claim(&demand(512, VolumeMode::Block)), Ok(MIB));
        assert_eq!(claim(&demand(10 * GIB, VolumeMode::Block)), Ok(10 * GIB));
        assert_eq!(
            claim(&demand(10 * GIB + 512, VolumeMode::Block)),
            Ok(10 * GIB + MIB)
        );
    }

    #[test]
    fn a_filesystem_claim_has_room_for_the_file_system() {
        // 10 GiB / 0.945 = 10835.98 MiB.
        assert_eq!(
            claim(&demand(10 * GIB, VolumeMode::Filesystem)),
            Ok(10_836 * MIB)
        );
        assert_eq!(
            claim(&demand(64 * MIB, VolumeMode::Filesystem)),
            Ok(256 * MIB)
        );
    }

    #[test]
    fn the_user_can_only_raise_it() {
        let mut raised = demand(GIB, VolumeMode::Block);
        raised.at_least = 3 * GIB + 1;
        assert_eq!(claim(&raised), Ok(3 * GIB + MIB));
        raised.at_least = 1;
        assert_eq!(claim(&raised), Ok(GIB));
    }

    #[test]
    fn a_disk_of_unknown_size_is_taken_to_be_as_large_as_the_user_says() {
        for mode in [VolumeMode::Block, VolumeMode::Filesystem] {
            let mut unknown = demand(1, mode);
            unknown.virtual_size = None;
            assert_eq!(claim(&unknown), Err(SizeError::Unknown));
            unknown.at_least = 3 * GIB - 1;
            assert_eq!(claim(&unknown), claim(&demand(3 * GIB - 1, mode)));
        }
    }

    #[test]
    fn what_cannot_be_sized_is_an_error() {
        assert_eq!(claim(&demand(0, VolumeMode::Block)), Err(SizeError::Empty));
        assert_eq!(
            claim(&demand(u64::MAX, VolumeMode::Filesystem)),
            Err(SizeError::TooLarge {
                virtual_size: u64::MAX
            })
        );
        assert_eq!(Overhead::from_fraction(0.5), None);
        assert_eq!(Overhead::from_fraction(f64::NAN), None);
        assert_eq!(Overhead::from_fraction(0.055), Some(Overhead::DEFAULT));
    }

    proptest! {
        #[test]
        fn the_disk_always_fits(
            virtual_size in 1..(1u64 << 60),
            at_least in 0..(1u64 << 60),
            share in 0.0..0.49f64,
            filesystem: bool,
        ) {
            let overhead = Overhead::from_fraction(share).unwrap();
            let mode = if filesystem { VolumeMode::Filesystem } else { VolumeMode::Block };
            let demand = Demand { virtual_size: Some(virtual_size), mode, at_least, overhead };
            let size = claim(&demand).unwrap();
            prop_assert_eq!(size % MIB, 0);
            prop_assert!(size >= at_least);
            let usable = match mode {
                VolumeMode::Block => u128::from(size),
                VolumeMode::Filesystem => {
                    u128::from(size) * u128::from(1_000_000 - overhead.0) / 1_000_000
                }
            };
            prop_assert!(usable >= u128::from(virtual_size));
        }
    }
}
