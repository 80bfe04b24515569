//! Where an image comes from, and what is known of it.
//!
//! Invariant: neither `Debug` nor `Display` of anything here shows the query
//! or the user part of a URL, because a signed URL is a credential; only
//! serialisation into the root-only journal does. What lets in beside the URL
//! is an [`Access`], which is never written down.

mod access;

pub use access::{Access, BasicCredentials, Header, Secret, Signing};
pub use hypercloud_transfer::{Checksum, Packing};

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// An object behind an `http://` or `https://` URL.
    Http(HttpUrl),
    /// An object in an S3-compatible object store.
    ObjectStore(ObjectLocation),
}

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectLocation {
    /// Name of the bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Address of the store; Amazon's for the region without one.
    pub endpoint: Option<HttpUrl>,
    /// Region that requests are signed for.
    pub region: Option<String>,
    /// Whether the bucket stands in the path rather than in the host's name.
    pub path_style: bool,
}

/// An absolute `http` or `https` URL without user and password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Url", into = "Url")]
pub struct HttpUrl(Url);

/// Why a URL is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It does not parse.
    #[error("the source URL is not an absolute URL")]
    Malformed(#[source] url::ParseError),
    /// Neither http nor https.
    #[error("the source URL has the scheme {0:?}, only http and https are served")]
    Scheme(String),
    /// User or password inside the URL: it would be stored and shown.
    #[error("the source URL carries a user name or password")]
    Credentials,
}

impl HttpUrl {
    /// Reads a URL as a request carries it.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        Url::parse(text).map_err(UrlError::Malformed)?.try_into()
    }

    /// The whole URL, its query included.
    pub fn as_url(&self) -> &Url {
        &self.0
    }
}

impl TryFrom<Url> for HttpUrl {
    type Error = UrlError;

    fn try_from(url: Url) -> Result<Self, UrlError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Credentials);
        }
        Ok(Self(url))
    }
}

impl From<HttpUrl> for Url {
    fn from(url: HttpUrl) -> Self {
        url.0
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.origin().ascii_serialization())?;
        f.write_str(self.0.path())?;
        if self.0.query().is_some() {
            f.write_str("?...")
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpUrl({self})")
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(url) => url.fmt(f),
            Self::ObjectStore(object) => object.fmt(f),
        }
    }
}

impl fmt::Display for ObjectLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

/// Format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Format {
    /// The bytes of the disk as they are.
    Raw,
    /// QEMU's copy-on-write format, version 2 or 3.
    Qcow2,
}

/// What is known of a source once its first bytes were seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// Format of the image.
    pub format: Format,
    /// What the image is packed in.
    #[serde(default)]
    pub packing: Option<Packing>,
    /// Size of the disk that a guest sees, in bytes, where the source tells
    /// it before all of it was read.
    pub virtual_size: Option<u64>,
    /// Size of the object in bytes, where the server says it.
    pub source_size: Option<u64>,
    /// ETag or modification date.
    pub validator: Option<String>,
    /// Whether the server answers range requests.
    pub ranges: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_form_of_text_shows_the_query() {
        let url = HttpUrl::parse("https://images.test/a.qcow2?X-Signature=s3cret#part").unwrap();
        assert_eq!(url.to_string(), "https://images.test/a.qcow2?...");
        assert!(!format!("{:?}", Source::Http(url)).contains("s3cret"));
    }

    #[test]
    fn what_is_no_plain_http_url_is_refused() {
        for text in [
            "ftp://a/b",
            "file:///etc/shadow",
            "a/b",
            "",
            "http://u:p@host/",
            "http://u@host/",
        ] {
            assert!(HttpUrl::parse(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn the_journal_holds_the_whole_url() {
        let source = Source::Http(HttpUrl::parse("http://h/i?t=1").unwrap());
        let text = serde_json::to_string(&source).unwrap();
        assert_eq!(text, r#"{"http":"http://h/i?t=1"}"#);
        assert_eq!(serde_json::from_str::<Source>(&text).unwrap(), source);
        assert!(serde_json::from_str::<Source>(r#"{"http":"http://u:p@h/"}"#).is_err());
    }
}
