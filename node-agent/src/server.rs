//! The gRPC server.
//!
//! Protocol types stop in [`convert`]; [`service`] answers the calls;
//! [`turns`] says how many of them at a time; [`watch`] and [`devices`] turn a
//! board into a stream; [`listen`] accepts and encrypts; [`serve`] ties a listener to the
//! identity of the moment. No job depends on a connection or on the server.

mod convert;
mod devices;
mod listen;
mod serve;
mod service;
mod turns;
mod watch;

pub use serve::{Serving, serve};
pub use service::AgentService;
