//! Work on volumes by an agent, for whichever resource needs some: a holder
//! pod has the volumes, and the agent of its node does the job.
//!
//! - [`plan`] (no client): the next step; [`leftovers`], what former tries
//!   left; [`ending`], how the work is given up. Values in, values out:
//!   nothing of the resource that the work is for, nor of the job.
//! - [`retry`] (no client): when it is tried again.
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

pub use plan::{Action, Begin, Chosen, Step, Task, VolumeSeen, step};
