//! Why an image is not taken.
//!
//! One variant per reason, so that a status, an exit code or a test can tell
//! them apart. A refusal is final for these bytes: fetching them again gives
//! the same answer. Messages name the way out where there is one.

use crate::detect::{Foreign, Packing};

/// The largest virtual disk that is accepted: 64 TiB, ext4's and most
/// providers' limit for one volume. Anything above is a damaged header.
pub const MAX_VIRTUAL_SIZE: u64 = 64 << 40;

/// What to do with an image whose own tables contradict it.
const DAMAGED: &str =
    "the image is damaged; fetch or upload it again, or repair it with qemu-img check -r all";
/// What to do with a file that ends too early.
const CUT: &str = "the file is cut short; fetch or upload it again";
/// What to do with an image that is lawful and beyond what is read here.
const CONVERT: &str = "convert it with qemu-img convert -O qcow2 IN OUT";

/// A reason not to take an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The source has no bytes.
    #[error("the source is empty: check its address and its upload")]
    Empty,
    /// The source is in another format, which this version does not read.
    #[error("the source is {0}, which is not supported: {hint}", hint = .0.hint())]
    ForeignFormat(Foreign),
    /// The source is text for a browser, most often a login or error page.
    #[error(
        "the source is a web page, not a disk image: check that the address is the file's own and needs no login"
    )]
    WebPage,
    /// A packed source holds another packed file.
    #[error(
        "the {outer} data holds {inner} data, which is not unpacked again: pack the image once"
    )]
    NestedPacking {
        /// What the source is packed with.
        outer: Packing,
        /// What that holds.
        inner: Packing,
    },
    /// Packed data does not unpack, or its checksum is wrong.
    #[error("the {0} data is damaged: fetch or upload it again")]
    DamagedPacking(Packing),
    /// Packed data ends before its own end.
    #[error("the {0} data is cut short: fetch or upload it again")]
    TruncatedPacking(Packing),
    /// Something else follows the packed data.
    #[error(
        "the {0} data is followed by bytes that are not {0}: the file is damaged, or was glued together"
    )]
    TrailingBytes(Packing),
    /// Packed data refers further back than there is memory for.
    #[error(
        "unpacking the {packing} data takes more than {limit_mib} MiB of memory: pack it again with {hint}",
        hint = match packing {
            Packing::Zstd => "zstd --long=26 or less",
            _ => "a smaller dictionary",
        }
    )]
    PackingWindow {
        /// What the source is packed with.
        packing: Packing,
        /// How much memory there is, in MiB.
        limit_mib: u64,
    },
    /// Packed data goes on and on and hardly unpacks to anything.
    #[error(
        "the {packing} data has {limit} bytes and more that unpack to nothing: pack the image again, without empty parts"
    )]
    HollowPacking {
        /// What the source is packed with.
        packing: Packing,
        /// How many packed bytes came.
        limit: u64,
    },
    /// Packed data unpacks to more than is read of it.
    #[error("the {packing} data unpacks to more than the {limit} bytes that are read of it")]
    UnpacksTooLarge {
        /// What the source is packed with.
        packing: Packing,
        /// How many bytes are read at most.
        limit: u64,
    },
    /// A source that does not say how long it is goes on far behind the image.
    #[error(
        "the source goes on behind the image for more than the {limit} bytes that are read of it: check its address and its upload"
    )]
    Endless {
        /// How many bytes are read at most.
        limit: u64,
    },
    /// The source ends before its own metadata says it may.
    #[error("the image needs {needed} bytes and has {available}: {CUT}")]
    Truncated {
        /// The end of the bytes the metadata refers to.
        needed: u64,
        /// The length of the source.
        available: u64,
    },
    /// A disk with these first bytes would be taken for another format by
    /// whoever opens it without naming the format.
    #[error(
        "the disk's own first bytes look like {0}, and a virtual machine would misread it: import the image inside it, converted with qemu-img convert -O qcow2 IN OUT"
    )]
    Masquerade(Foreign),
    /// The header's version is neither 2 nor 3.
    #[error("qcow2 version {0} is not supported: {CONVERT}")]
    UnsupportedVersion(u32),
    /// The image refers to a backing file.
    #[error(
        "the image needs a backing file, which is never followed: flatten it with qemu-img convert -O qcow2 IN OUT"
    )]
    BackingFile,
    /// The image keeps its clusters in another file.
    #[error(
        "the image keeps its data in an external file, which is never followed: flatten it with qemu-img convert -O qcow2 IN OUT"
    )]
    ExternalDataFile,
    /// The image is encrypted.
    #[error(
        "the image is encrypted, and no key is ever asked for: decrypt it with qemu-img convert first"
    )]
    Encrypted,
    /// Incompatible feature bits that this version does not know.
    #[error("the image uses unknown incompatible features (bits {0:#x}): {CONVERT}")]
    UnknownFeatures(u64),
    /// The image is marked corrupt.
    #[error("the image is marked corrupt: repair it with qemu-img check -r all IMAGE")]
    Corrupt,
    /// A header field has a value the specification forbids.
    #[error("the header's {field} is {value}, which is not allowed: {DAMAGED}")]
    InvalidHeader {
        /// The field's name in the specification.
        field: &'static str,
        /// The value found.
        value: u64,
    },
    /// `cluster_bits` outside 9..=21.
    #[error("the header's cluster_bits is {0}, outside 9 to 21: {DAMAGED}")]
    ClusterBits(u32),
    /// Subclusters where clusters are below 16 KiB.
    #[error("the image has subclusters in clusters of 2^{0} bytes, less than 16 KiB: {DAMAGED}")]
    SmallSubclusters(u32),
    /// A compression type that this version does not know.
    #[error("the image's compression type {0} is unknown: {CONVERT}")]
    UnknownCompression(u8),
    /// The virtual size is not a multiple of 512, which no tool of QEMU's
    /// makes.
    #[error(
        "the image's virtual size {0} is not a multiple of 512: resize it with qemu-img resize"
    )]
    UnalignedVirtualSize(u64),
    /// The virtual size is zero.
    #[error(
        "the image's virtual size is zero: there is nothing to import; resize it with qemu-img resize"
    )]
    ZeroVirtualSize,
    /// The virtual size is above [`MAX_VIRTUAL_SIZE`].
    #[error(
        "the image's virtual size {0} is above the limit of {MAX_VIRTUAL_SIZE} bytes: shrink it with qemu-img resize --shrink"
    )]
    AbsurdVirtualSize(u64),
    /// A table is larger than any image needs.
    #[error(
        "the image's {table} table of {entries} entries is larger than any disk of its size needs: {CONVERT}"
    )]
    OversizedTable {
        /// Which table.
        table: &'static str,
        /// How many entries the header asks for.
        entries: u64,
    },
    /// The L1 table cannot cover the virtual size.
    #[error(
        "the image's L1 table has {entries} entries where its virtual size needs {needed}: {DAMAGED}"
    )]
    ShortL1Table {
        /// The header's `l1_size`.
        entries: u64,
        /// What the virtual size needs.
        needed: u64,
    },
    /// A table's place is not aligned to a cluster.
    #[error(
        "the image's {table} table at offset {offset:#x} is not aligned to a cluster: {DAMAGED}"
    )]
    UnalignedTable {
        /// Which table.
        table: &'static str,
        /// Where it is said to be.
        offset: u64,
    },
    /// A table lies beyond the end of the source.
    #[error(
        "the image's {table} table at offset {offset:#x} lies beyond the end of the file: {CUT}"
    )]
    TableBeyondEnd {
        /// Which table.
        table: &'static str,
        /// Where it is said to be.
        offset: u64,
    },
    /// A table overlaps the header or another table.
    #[error("the image's {table} table at offset {offset:#x} overlaps other metadata: {DAMAGED}")]
    OverlappingTable {
        /// Which table.
        table: &'static str,
        /// Where it is said to be.
        offset: u64,
    },
    /// Two entries of the L1 table name the same L2 table.
    #[error("the image's L2 table at offset {offset:#x} is used twice: {DAMAGED}")]
    SharedTable {
        /// Where it is.
        offset: u64,
    },
    /// A table entry has bits set that must be zero.
    #[error(
        "the image's {table} table has an entry with reserved bits set, {entry:#018x}: {DAMAGED}"
    )]
    ReservedBits {
        /// Which table.
        table: &'static str,
        /// The entry.
        entry: u64,
    },
    /// A data cluster's place is not aligned to a cluster, or absent where
    /// the entry says that there is one.
    #[error("the image has a data cluster at the impossible offset {offset:#x}: {DAMAGED}")]
    MisplacedCluster {
        /// Where it is said to be.
        offset: u64,
    },
    /// A cluster lies beyond the end of the source.
    #[error("the image has a cluster at offset {offset:#x}, beyond the end of the file: {CUT}")]
    ClusterBeyondEnd {
        /// Where it is said to be.
        offset: u64,
    },
    /// A compressed cluster does not decode.
    #[error("the compressed cluster at offset {offset:#x} does not decode: {DAMAGED}")]
    UndecodableCluster {
        /// Where it is in the source.
        offset: u64,
    },
    /// A compressed cluster decodes to less than a cluster.
    #[error(
        "the compressed cluster at offset {offset:#x} decodes to less than a cluster: {DAMAGED}"
    )]
    ShortCluster {
        /// Where it is in the source.
        offset: u64,
    },
    /// A compressed cluster decodes to more than a cluster.
    #[error(
        "the compressed cluster at offset {offset:#x} decodes to more than a cluster: {DAMAGED}"
    )]
    LongCluster {
        /// Where it is in the source.
        offset: u64,
    },
}

impl Refusal {
    /// A stable CamelCase name for conditions, Events and scripts.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Empty => "EmptySource",
            Self::ForeignFormat(_) => "UnsupportedFormat",
            Self::WebPage => "WebPage",
            Self::NestedPacking { .. } => "NestedPacking",
            Self::DamagedPacking(_) => "DamagedPacking",
            Self::TruncatedPacking(_) => "TruncatedPacking",
            Self::TrailingBytes(_) => "TrailingBytes",
            Self::PackingWindow { .. } => "PackingWindowTooLarge",
            Self::HollowPacking { .. } => "HollowPacking",
            Self::UnpacksTooLarge { .. } => "UnpacksTooLarge",
            Self::Endless { .. } => "EndlessSource",
            Self::Truncated { .. } => "TruncatedImage",
            Self::Masquerade(_) => "MasqueradingDisk",
            Self::UnsupportedVersion(_) => "UnsupportedVersion",
            Self::BackingFile => "BackingFile",
            Self::ExternalDataFile => "ExternalDataFile",
            Self::Encrypted => "EncryptedImage",
            Self::UnknownFeatures(_) => "UnknownFeatures",
            Self::Corrupt => "CorruptImage",
            Self::InvalidHeader { .. } => "InvalidHeader",
            Self::ClusterBits(_) => "InvalidClusterSize",
            Self::SmallSubclusters(_) => "SmallSubclusters",
            Self::UnknownCompression(_) => "UnknownCompression",
            Self::UnalignedVirtualSize(_) => "UnalignedVirtualSize",
            Self::ZeroVirtualSize => "ZeroVirtualSize",
            Self::AbsurdVirtualSize(_) => "AbsurdVirtualSize",
            Self::OversizedTable { .. } => "OversizedTable",
            Self::ShortL1Table { .. } => "ShortL1Table",
            Self::UnalignedTable { .. } => "UnalignedTable",
            Self::TableBeyondEnd { .. } => "TableBeyondEnd",
            Self::OverlappingTable { .. } => "OverlappingTable",
            Self::SharedTable { .. } => "SharedTable",
            Self::ReservedBits { .. } => "ReservedBits",
            Self::MisplacedCluster { .. } => "MisplacedCluster",
            Self::ClusterBeyondEnd { .. } => "ClusterBeyondEnd",
            Self::UndecodableCluster { .. } => "UndecodableCluster",
            Self::ShortCluster { .. } => "ShortCluster",
            Self::LongCluster { .. } => "LongCluster",
        }
    }
}
