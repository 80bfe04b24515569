//! One export, from a raw disk of this machine to an object or a file.

mod checkpoint;
mod request;

pub use self::checkpoint::ExportCheckpoint;
pub use self::request::{
    Compression, ExportFormat, ExportObserver, ExportRequest, ExportTarget, Exported,
};
