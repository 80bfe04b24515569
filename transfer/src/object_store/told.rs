//! What a store tells of what was written to it.

/// A part that the store has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) number: u32,
    pub(crate) size: u64,
    pub(crate) etag: String,
    /// Its CRC-32C in base64, where the store takes checksums.
    pub(crate) checksum: Option<String>,
}

/// An object as the store tells of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) etag: Option<String>,
    pub(crate) checksum: Option<String>,
    pub(crate) size: Option<u64>,
    /// What it was marked with.
    pub(crate) mark: Option<String>,
    /// Whom it belongs to.
    pub(crate) owner: Option<String>,
}

/// An upload that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) id: String,
    /// Whether the store takes checksums of parts.
    pub(crate) checksums: bool,
}
