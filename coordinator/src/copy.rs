//! Copies from volume to volume, for whichever resource needs one:
//! [`work`](crate::work) on two volumes.
//!
//! - [`plan`] (no client): the next step of a copy.
//! - [`status`] (no client): what is written down of it.
//! - [`execute`] (client required): does the actions.

pub mod execute;
pub mod plan;
pub mod status;

pub use plan::{Action, Step, Task, VolumeSeen, step};
