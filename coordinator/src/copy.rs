//! Copies from volume to volume, for whichever resource needs one: a holder
//! pod has both volumes, and the agent of its node does the work.
//!
//! - [`plan`] (no client): the next step of a copy; [`leftovers`], what former
//!   tries left; [`ending`], how one is given up. Values in, values out:
//!   nothing of the resource that the copy is for.
//! - [`status`] and [`retry`] (no client): what is written down of it.
//! - [`execute`] (client required): does the actions.
//!
//! What must not be forgotten is written to the resource's status before
//! anything is done about it: that a job was chosen before it is started,
//! that it succeeded before its holder goes.

pub mod ending;
pub mod execute;
pub mod leftovers;
pub mod plan;
pub mod retry;
pub mod status;

pub use plan::{Action, Step, Task, VolumeSeen, step};
