//! S3-compatible object stores.
//!
//! The AWS SDK says where an object is (endpoint, region, path or virtual
//! host) and signs for it, with keys it is given or finds. Of an object that
//! is read it moves no byte; one that is written it sends. What it asks over
//! the network, temporary credentials too, it asks through the HTTP client of
//! this crate, so that there is one TLS stack and one set of trusted
//! certificates.
//!
//! Invariants:
//! - no key, token or signed address is shown;
//! - what a store is asked obeys [`crate::AddressPolicy`]; where credentials
//!   come from is said by the environment of this process, not by a source,
//!   and the machine's own role is used only where every address is allowed.

mod address;
mod answer;
mod client;
mod connector;
mod credentials;
mod error;
mod failure;
mod payload;
mod sending;
mod signer;
mod told;
mod writer;

pub use error::ObjectStoreError;
pub(crate) use payload::{Payload, Stretch};
pub(crate) use signer::Signer;
pub(crate) use told::{Begun, Found, Sent};
pub(crate) use writer::Writer;
