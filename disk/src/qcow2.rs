//! The qcow2 format: what a header, an L1 table and an L2 entry say, and how
//! clusters are compressed.
//!
//! Only what reading the active layer needs: internal snapshots are ignored,
//! refcounts are bounds-checked and not read. Sections named in comments are
//! those of QEMU's `docs/interop/qcow2.txt`.

mod decode;
mod encode;
mod header;
mod l1;
mod l2;

pub use decode::Decoder;
pub use encode::Encoder;
pub use header::{Compression, Header};
pub use l1::{L1Builder, L1Table};
pub use l2::{Mapping, Subclusters};
