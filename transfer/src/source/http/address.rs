//! Where requests go.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use url::Url;

use crate::error::SourceError;
use crate::source::client::shown;

/// The address of a file on an HTTP server.
#[derive(Clone)]
pub(crate) enum Address {
    /// The same for every request.
    Fixed(Url),
    /// Made anew for every request, as one that is signed and expires is.
    Signed(Arc<dyn Sign>),
}

/// An answer that gives nothing of the file.
#[derive(Clone, Copy)]
pub(crate) struct Refusal<'a> {
    pub(crate) status: StatusCode,
    pub(crate) headers: &'a HeaderMap,
    /// The beginning of the body.
    pub(crate) body: &'a [u8],
}

/// Makes addresses that are good for one request each.
#[async_trait]
pub(crate) trait Sign: Send + Sync {
    /// An address for a GET, with a range or without.
    ///
    /// # Errors
    /// Those that are retryable are tried again like failed requests.
    async fn sign(&self) -> Result<Url, SourceError>;

    /// What is behind the addresses, as it may be shown.
    fn location(&self) -> String;

    /// What the body of a refusal says beyond its status, if anything.
    fn explain(&self, refusal: Refusal<'_>) -> Option<SourceError> {
        let _ = refusal;
        None
    }
}

impl Address {
    /// The address as it may be shown.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Fixed(url) => shown(url),
            Self::Signed(signer) => signer.location(),
        }
    }
}
