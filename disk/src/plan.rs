//! The copy plan: which bytes of the source become which bytes of the disk.
//!
//! A plan is a sequence of [`Window`]s of the disk, each small enough to be
//! held in memory. A window says which of its bytes are zero, and has jobs:
//! stretches of the source, in the order in which they lie there, so that a
//! source is read forward once per window.
//!
//! Invariants:
//! - zeros and pieces of a window cover it exactly, without overlap;
//! - the same metadata gives the same windows, jobs and pieces, so that a
//!   position (window, items) may be kept. Whatever changes that raises
//!   [`LAYOUT`].

mod group;
mod qcow2;
mod raw;

use std::ops::Range;

use crate::extent::Extent;
use crate::qcow2::{Compression, Header, L1Table};
use crate::refusal::{MAX_VIRTUAL_SIZE, Refusal};

pub use qcow2::TableRead;

/// How the source can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anywhere, at any time.
    Ranges,
    /// Once, from the beginning to the end. Each window is one L2 table: an
    /// image as `qemu-img convert` writes it has every table before the
    /// clusters it maps, and so is read in order.
    Stream,
}

/// The version of what a position in a plan means.
pub const LAYOUT: u32 = 2;

/// How the source has a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// As it is on the disk.
    Plain,
    /// As one compressed cluster, to be decoded whole.
    Compressed,
}

/// A run of bytes that the source has for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins in the source.
    pub host: u64,
    /// Where it begins on the disk.
    pub guest: u64,
    /// How many bytes it takes in the source.
    pub source_length: u32,
    /// How many bytes it takes on the disk. For a plain piece more than in
    /// the source only at the end of a raw source, where zeros follow.
    pub disk_length: u32,
    /// How the source has it.
    pub kind: PieceKind,
}

impl Piece {
    /// Its place in the source.
    #[must_use]
    pub fn source(&self) -> Extent {
        Extent {
            start: self.host,
            length: u64::from(self.source_length),
        }
    }

    /// Its place on the disk.
    #[must_use]
    pub fn disk(&self) -> Extent {
        Extent {
            start: self.guest,
            length: u64::from(self.disk_length),
        }
    }
}

/// A stretch of the source to be read at once, with what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The stretch; about 2 MiB, more only where one cluster is.
    pub source: Extent,
    /// How much of the disk it settles.
    pub disk_bytes: u64,
    pieces: Range<usize>,
}

/// A part of the disk, planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Which part.
    pub disk: Extent,
    /// What of it is zero, in order.
    pub zeros: Vec<Extent>,
    jobs: Vec<Job>,
    pieces: Vec<Piece>,
}

impl Window {
    fn new(disk: Extent, zeros: Vec<Extent>, mut pieces: Vec<Piece>) -> Self {
        pieces.sort_unstable_by_key(|piece| (piece.host, piece.guest));
        let jobs = group::jobs(&pieces);
        Self {
            disk,
            zeros,
            jobs,
            pieces,
        }
    }

    /// The window's jobs, by their place in the source.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// A job's pieces, by their place in the source.
    #[must_use]
    pub fn pieces(&self, job: &Job) -> &[Piece] {
        self.pieces.get(job.pieces.clone()).unwrap_or_default()
    }
}

/// The plan of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Raw(raw::RawPlan),
    Qcow2(qcow2::Qcow2Plan),
}

impl Plan {
    /// The plan of a raw source of this many bytes. A length that is not a
    /// multiple of 512 is padded with zeros to the next.
    ///
    /// # Errors
    /// A [`Refusal`] for an empty or absurdly long source.
    pub fn raw(source_size: u64) -> Result<Self, Refusal> {
        Ok(Self(Kind::Raw(raw::RawPlan::new(source_size)?)))
    }

    /// The plan of a qcow2 image.
    #[must_use]
    pub fn qcow2(header: Header, l1: L1Table, access: Access) -> Self {
        Self(Kind::Qcow2(qcow2::Qcow2Plan::new(header, l1, access)))
    }

    /// The plan of the same image for a source that is read in another way.
    /// Positions in the one mean nothing in the other.
    #[must_use]
    pub fn for_access(self, access: Access) -> Self {
        Self(match self.0 {
            Kind::Raw(raw) => Kind::Raw(raw),
            Kind::Qcow2(qcow2) => Kind::Qcow2(qcow2.for_access(access)),
        })
    }

    /// The disk's size, a multiple of 512.
    #[must_use]
    pub fn virtual_size(&self) -> u64 {
        match &self.0 {
            Kind::Raw(raw) => raw.virtual_size(),
            Kind::Qcow2(qcow2) => qcow2.header().virtual_size(),
        }
    }

    /// How compressed pieces are compressed, and the size they decode to;
    /// `None` where there are none.
    #[must_use]
    pub fn compression(&self) -> Option<(Compression, u64)> {
        match &self.0 {
            Kind::Raw(_) => None,
            Kind::Qcow2(qcow2) => {
                Some((qcow2.header().compression(), qcow2.header().cluster_size()))
            }
        }
    }

    /// What all places on the disk are multiples of.
    #[must_use]
    pub fn alignment(&self) -> u64 {
        let block = match &self.0 {
            Kind::Raw(_) => raw::JOB,
            Kind::Qcow2(qcow2) => qcow2.granule(),
        };
        // The disk's end is a place too.
        1 << block
            .trailing_zeros()
            .min(self.virtual_size().trailing_zeros())
    }

    /// How many windows there are.
    #[must_use]
    pub fn windows(&self) -> u64 {
        match &self.0 {
            Kind::Raw(raw) => raw.windows(),
            Kind::Qcow2(qcow2) => qcow2.windows(),
        }
    }

    /// Begins a window. Its tables have to be read and accepted, then it is
    /// finished.
    #[must_use]
    pub fn begin(&self, window: u64) -> WindowBuilder<'_> {
        match &self.0 {
            Kind::Raw(raw) => WindowBuilder(Builder::Raw(raw.window(window))),
            Kind::Qcow2(qcow2) => WindowBuilder(Builder::Qcow2(qcow2.begin(window))),
        }
    }
}

/// A window whose tables are being read.
#[derive(Debug)]
pub struct WindowBuilder<'a>(Builder<'a>);

#[derive(Debug)]
enum Builder<'a> {
    Raw(Window),
    Qcow2(qcow2::WindowBuilder<'a>),
}

impl WindowBuilder<'_> {
    /// What of the source has to be read, in the source's order.
    #[must_use]
    pub fn reads(&self) -> Vec<TableRead> {
        match &self.0 {
            Builder::Raw(_) => Vec::new(),
            Builder::Qcow2(builder) => builder.reads(),
        }
    }

    /// Takes the bytes of one of [`Self::reads`].
    ///
    /// # Errors
    /// A [`Refusal`] for what the tables say.
    pub fn accept(&mut self, read: &TableRead, bytes: &[u8]) -> Result<(), Refusal> {
        match &mut self.0 {
            Builder::Raw(_) => Ok(()),
            Builder::Qcow2(builder) => builder.accept(read, bytes),
        }
    }

    /// The window, once every read was accepted.
    #[must_use]
    pub fn finish(self) -> Window {
        match self.0 {
            Builder::Raw(window) => window,
            Builder::Qcow2(builder) => builder.finish(),
        }
    }
}

/// A raw source's disk size: its length, padded to a multiple of 512.
///
/// # Errors
/// A [`Refusal`] for an empty or absurdly long source.
pub fn raw_virtual_size(source_size: u64) -> Result<u64, Refusal> {
    match source_size {
        0 => Err(Refusal::Empty),
        size if size > MAX_VIRTUAL_SIZE => Err(Refusal::AbsurdVirtualSize(size)),
        size => Ok(size.next_multiple_of(512)),
    }
}
