//! What is done next: to install and upgrade, to give up devices, to delete.
//!
//! Invariant: every plan follows from what is seen and what the status says,
//! so a coordinator that lost its memory goes on where the last one was.

pub mod change;
pub mod deletion;
pub mod install;
pub mod removal;
