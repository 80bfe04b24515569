//! Disk image formats, without I/O.
//!
//! Bytes come in, decisions go out: which format a source is
//! ([`detect`]), what its tables say ([`qcow2`]), which bytes of the source
//! belong where on the disk ([`plan`]), and where in an image that is written
//! the bytes of a disk go ([`layout`]). The crate opens no file, makes
//! no request and starts no task; whoever owns the bytes drives it.
//!
//! Invariants:
//! - every parser is total: any byte string gives a value or a [`Refusal`],
//!   never a panic, an overflow or an allocation sized by the image alone;
//! - a plan is a function of the metadata: the same image always gives the
//!   same items in the same order, so a position in it outlives a process;
//! - nothing an image names (backing file, external data) is ever followed.

pub mod detect;
pub mod extent;
pub mod layout;
pub mod plan;
pub mod qcow2;
mod refusal;

pub use detect::{ImageFormat, Packing};
pub use extent::Extent;
pub use refusal::{MAX_VIRTUAL_SIZE, Refusal};
