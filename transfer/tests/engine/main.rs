//! The engine against `qemu-img`, and against servers that misbehave.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod address;
mod arbitrary;
mod bodies;
mod checksum;
mod copy;
mod credentials;
mod damage;
mod device;
mod hostile;
mod image;
mod layouts;
mod matrix;
mod misbehave;
mod object_store;
mod pace;
mod packed;
mod packed_damage;
mod packing;
mod proxy;
mod resume;
mod second_reader;
mod server;
mod store;
mod stream;
mod target;
mod trust;
mod watch;
mod writer;
