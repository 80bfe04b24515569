//! Jobs: what the coordinator asked for, kept until it says to forget them.
//!
//! A job's life is the machine in [`state`]; [`journal`] makes it outlive the
//! process; [`drive`] ties the two together for one job, in the order sink
//! flushed, journal written, state shown; [`runner`] starts, resumes and
//! cancels, one writer to a volume by [`claims`]; [`retry`] decides which
//! outages are sat out; [`board`] is what watchers see.

pub mod board;
mod claims;
pub mod drive;
pub mod journal;
pub mod record;
pub mod retry;
pub mod runner;
pub mod spec;
pub mod state;

#[cfg(test)]
mod runner_tests;
