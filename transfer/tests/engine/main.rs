//! The engine against `qemu-img`, and against servers that misbehave.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod address;
mod checksum;
mod damage;
mod device;
mod image;
mod matrix;
mod misbehave;
mod resume;
mod server;
mod stream;
mod target;
mod watch;
