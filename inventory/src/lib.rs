//! What block devices a node has, and why each is or is not free.
//!
//! In three steps: a *walk* reads a node, or a recorded tree of one, into a
//! plain snapshot; *classification* is a function from that snapshot to the
//! inventory; what asks the inventory ([`rook`], [`resolve`], [`cleaning`]) is
//! a function of it. Only the walk and its probe touch files and devices, and
//! nothing here ever opens a device for writing: closing such a descriptor
//! makes udev look at the device anew.
//!
//! Invariant: a device is available only if nothing speaks against it *and*
//! everything that could was read. What could not be read is a reason itself.

mod classify;
pub mod cleaning;
mod inventory;
mod policy;
mod probe;
mod reason;
pub mod resolve;
pub mod rook;
pub mod snapshot;
mod walk;
pub mod watch;

pub use self::classify::classify;
pub use self::inventory::{Device, DeviceClass, FileSystem, Identity, Inventory, Kind, Partition};
pub use self::policy::Policy;
pub use self::probe::{
    BLUESTORE_LABELS, Leftover, Leftovers, Opened, Opener, Prober, SignatureSource,
};
pub use self::reason::{Explanation, Reason};
pub use self::snapshot::Transport;
pub use self::walk::{Tree, WalkError, look_closer, walk};
