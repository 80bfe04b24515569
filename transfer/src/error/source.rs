//! Why a source could not be read.

use std::net::IpAddr;

use hypercloud_disk::{Packing, Refusal};
use hypercloud_trust::{InvalidAuthorities, TrustError};

use crate::object_store::ObjectStoreError;

/// Why a source could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// 404, 410, or no such file.
    #[error("{0} does not exist")]
    NotFound(String),
    /// 401.
    #[error("{0} asks for credentials, or does not accept the ones given")]
    Unauthorized(String),
    /// 403, or no permission to read a file.
    #[error("access to {0} is forbidden")]
    Forbidden(String),
    /// 429.
    #[error("the server of {0} asks for fewer requests")]
    TooManyRequests(String),
    /// 5xx.
    #[error("the server of {location} answered with status {status}")]
    ServerError {
        /// The address.
        location: String,
        /// The status.
        status: u16,
    },
    /// Any other status that is no success.
    #[error("the server of {location} answered with the unexpected status {status}")]
    UnexpectedStatus {
        /// The address.
        location: String,
        /// The status.
        status: u16,
    },
    /// The host's name has no address.
    #[error("the name of {location} could not be resolved")]
    NameNotResolved {
        /// The address.
        location: String,
        /// The resolver's words.
        #[source]
        source: reqwest::Error,
    },
    /// No connection came about.
    #[error("connecting to {location} failed")]
    ConnectFailed {
        /// The address.
        location: String,
        /// The client's words.
        #[source]
        source: reqwest::Error,
    },
    /// The server's certificate is not accepted.
    #[error("the certificate of {location} is not accepted ({advice})")]
    CertificateInvalid {
        /// The address.
        location: String,
        /// What to do.
        advice: &'static str,
        /// The client's words.
        #[source]
        source: reqwest::Error,
    },
    /// The authorities to trust are no certificates.
    #[error("the certificate authorities that were given are not usable")]
    InvalidAuthorities(#[from] InvalidAuthorities),
    /// A header cannot be sent.
    #[error("{header} cannot be sent: {problem}")]
    InvalidHeader {
        /// Its name; its number where that is broken.
        header: String,
        /// Why.
        problem: &'static str,
    },
    /// What is set as a proxy is none.
    #[error("the proxy that is set is no address of an HTTP proxy, such as http://proxy:3128")]
    InvalidProxy,
    /// 407.
    #[error("the proxy {0} asks for credentials, or does not accept the ones set for it")]
    ProxyUnauthorized(String),
    /// The proxy cannot be reached, or makes no connection.
    #[error("the proxy {proxy} does not connect to {location}")]
    ProxyFailed {
        /// The proxy.
        proxy: String,
        /// The address.
        location: String,
        /// The client's words.
        #[source]
        source: reqwest::Error,
    },
    /// The connection broke, or the body ended early.
    #[error("the connection to {location} was interrupted")]
    Interrupted {
        /// The address.
        location: String,
        /// The client's words.
        #[source]
        source: reqwest::Error,
    },
    /// The answer was shorter or longer than the server itself said.
    #[error("{location} gave {received} bytes where {expected} were announced")]
    WrongLength {
        /// The address.
        location: String,
        /// Bytes announced.
        expected: u64,
        /// Bytes received.
        received: u64,
    },
    /// Packed data ended before its end, on a connection that does not say
    /// how much is to come.
    #[error(
        "{location} ended within its {packing} data, and its server does not say how long it is: the connection was cut, or the file is cut short; fetch or upload it again if this goes on"
    )]
    CutShort {
        /// The address.
        location: String,
        /// What the source is packed with.
        packing: Packing,
    },
    /// No byte came for the length of the stall timeout.
    #[error("{0} sent nothing for too long")]
    Stalled(String),
    /// The content is not what it was when the import began.
    #[error("{0} changed while it was read")]
    SourceChanged(String),
    /// The answer to a range is not that range.
    #[error("the server of {0} answered with another range than was asked for")]
    WrongRange(String),
    /// The configured policy refuses the address.
    #[error("{location} leads to {address}, an address that transfers may not use")]
    AddressRefused {
        /// The address asked for.
        location: String,
        /// Where it leads.
        address: IpAddr,
    },
    /// What the source holds is not taken. Shown as
    /// [`TransferError::Refused`].
    #[error(transparent)]
    Refused(Refusal),
    /// Neither http nor https.
    #[error("{0} is neither an http nor an https address")]
    UnsupportedScheme(String),
    /// More than ten redirects, or a loop.
    #[error("{0} redirects too often")]
    TooManyRedirects(String),
    /// A redirect from https to http, where credentials or an authority were
    /// given, or the address is signed.
    #[error("{0} redirects to an address without encryption: use one that stays with https")]
    InsecureRedirect(String),
    /// A redirect without a usable target.
    #[error("{0} redirects to no usable address")]
    InvalidRedirect(String),
    /// The server does not say how long the source is.
    #[error("the server of {0} does not say how long the image is: it must send Content-Length")]
    LengthUnknown(String),
    /// The format needs ranges, and the server has none.
    #[error(
        "the server of {0} cannot send parts of a file (HTTP ranges), which the layout of this image needs: serve it from one that can, or rewrite it with qemu-img convert"
    )]
    RangesRequired(String),
    /// The body is encoded in transit.
    #[error(
        "the server of {location} sends the image with the content encoding {encoding}: switch it off"
    )]
    ContentEncoded {
        /// The address.
        location: String,
        /// The encoding.
        encoding: String,
    },
    /// The request could not be made.
    #[error("requesting {location} failed")]
    Request {
        /// The address.
        location: String,
        /// The client's words.
        #[source]
        source: reqwest::Error,
    },
    /// The HTTP client could not be set up.
    #[error("setting up the HTTP client failed")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The path is neither a regular file nor a block device.
    #[error("{0} is neither a regular file nor a block device")]
    NotAFile(String),
    /// A file name that is more than a name.
    #[error("{0:?} is not a plain file name")]
    InvalidName(String),
    /// A name in a directory leads elsewhere: a link or a mount point.
    #[error("{0} is a link or a mount point, which is not followed")]
    Unsafe(String),
    /// An object store says why not.
    #[error(transparent)]
    ObjectStore(#[from] ObjectStoreError),
    /// A local file could not be read.
    #[error("reading {location} failed")]
    Read {
        /// The path.
        location: String,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
}

impl From<TrustError> for SourceError {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Authorities(invalid) => invalid.into(),
            other => Self::Client(other.into()),
        }
    }
}

impl SourceError {
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "NotFound",
            Self::Unauthorized(_) => "Unauthorized",
            Self::Forbidden(_) => "Forbidden",
            Self::TooManyRequests(_) => "TooManyRequests",
            Self::ServerError { .. } => "ServerError",
            Self::UnexpectedStatus { .. } => "UnexpectedStatus",
            Self::NameNotResolved { .. } => "NameNotResolved",
            Self::ConnectFailed { .. } => "ConnectFailed",
            Self::CertificateInvalid { .. } => "CertificateInvalid",
            Self::InvalidAuthorities(_) => "InvalidAuthorities",
            Self::InvalidHeader { .. } => "InvalidHeader",
            Self::InvalidProxy => "InvalidProxy",
            Self::ProxyUnauthorized(_) => "ProxyUnauthorized",
            Self::ProxyFailed { .. } => "ProxyFailed",
            Self::Interrupted { .. } | Self::WrongLength { .. } | Self::CutShort { .. } => {
                "Interrupted"
            }
            Self::Stalled(_) => "Stalled",
            Self::SourceChanged(_) => "SourceChanged",
            Self::WrongRange(_) => "WrongRange",
            Self::AddressRefused { .. } => "AddressRefused",
            Self::Refused(refusal) => refusal.reason(),
            Self::UnsupportedScheme(_) => "UnsupportedScheme",
            Self::TooManyRedirects(_) => "TooManyRedirects",
            Self::InsecureRedirect(_) => "InsecureRedirect",
            Self::InvalidRedirect(_) => "InvalidRedirect",
            Self::LengthUnknown(_) => "LengthUnknown",
            Self::RangesRequired(_) => "RangesRequired",
            Self::ContentEncoded { .. } => "ContentEncoded",
            Self::Request { .. } => "RequestFailed",
            Self::Client(_) => "ClientSetup",
            Self::ObjectStore(error) => error.reason(),
            Self::NotAFile(_) => "NotAFile",
            Self::InvalidName(_) => "InvalidSourceName",
            Self::Unsafe(_) => "UnsafeSource",
            Self::Read { .. } => "ReadFailed",
        }
    }

    pub(crate) fn is_retryable(&self) -> bool {
        if let Self::ObjectStore(error) = self {
            return error.is_retryable();
        }
        matches!(
            self,
            Self::TooManyRequests(_)
                | Self::ServerError { .. }
                | Self::NameNotResolved { .. }
                | Self::ConnectFailed { .. }
                | Self::ProxyFailed { .. }
                | Self::Interrupted { .. }
                | Self::WrongLength { .. }
                | Self::CutShort { .. }
                | Self::Stalled(_)
                | Self::SourceChanged(_)
                | Self::WrongRange(_)
                | Self::Request { .. }
                | Self::Read { .. }
        )
    }
}
