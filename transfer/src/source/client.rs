//! The HTTP clients, and what their errors mean.

use std::error::Error;

use reqwest::{Client, ClientBuilder};
use url::Url;

use super::address::{PolicyResolver, Refused, Unresolved};
use super::proxy::{Choice, Which};
use crate::error::SourceError;
use crate::options::Options;
use crate::request::HttpAccess;

/// A client for each way to a server: directly, and through the proxies.
pub(crate) struct Clients {
    direct: Client,
    http: Option<Client>,
    https: Option<Client>,
    choice: Choice,
}

impl Clients {
    pub(crate) fn new(access: &HttpAccess, options: &Options) -> Result<Self, SourceError> {
        let failed = |error: reqwest::Error| SourceError::Client(error.without_url().into());
        let choice = Choice::new(&options.proxies)?;
        let tls = hypercloud_trust::configuration(access.authorities.as_deref())?;
        let proxied = |which| -> Result<Option<Client>, SourceError> {
            let Some(proxy) = choice.proxy(which) else {
                return Ok(None);
            };
            // The system's resolver: whoever runs the engine named the proxy.
            let client = builder(tls.clone(), options).proxy(proxy.map_err(failed)?);
            Ok(Some(client.build().map_err(failed)?))
        };
        Ok(Self {
            direct: builder(tls.clone(), options)
                .dns_resolver(PolicyResolver(options.address_policy))
                .no_proxy()
                .build()
                .map_err(failed)?,
            http: proxied(Which::Http)?,
            https: proxied(Which::Https)?,
            choice,
        })
    }

    /// The way to an address.
    pub(crate) fn way(&self, url: &Url) -> Way<'_> {
        let which = self.choice.of(url);
        let client = which.and_then(|which| match which {
            Which::Http => self.http.as_ref(),
            Which::Https => self.https.as_ref(),
        });
        Way {
            client: client.unwrap_or(&self.direct),
            proxy: which.map(|which| self.choice.shown(which)),
        }
    }
}

/// The way to an address.
pub(crate) struct Way<'a> {
    pub(crate) client: &'a Client,
    /// The proxy it goes through, as it may be shown.
    proxy: Option<String>,
}

/// Builds a client that follows no redirect and decodes nothing.
///
/// HTTP/1.1 only: ranges travel over a connection each, so that they neither
/// share a congestion window nor wait for each other.
fn builder(tls: rustls::ClientConfig, options: &Options) -> ClientBuilder {
    Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(options.connect_timeout)
        .pool_max_idle_per_host(options.connections.max(options.max_connections))
        .http1_only()
        .user_agent(concat!("hypercloud-storage/", env!("CARGO_PKG_VERSION")))
}

/// A URL as it may be shown: without the user part, query and fragment.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Neither fails for http URLs; where they would, there is nothing to hide.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// The errors of a chain, looking into I/O errors as well.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let inner = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

/// The first error of a kind in a chain.
pub(crate) fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).find_map(|error| error.downcast_ref())
}

/// Whether a proxy asked for other credentials before it makes a tunnel. The
/// client has no type for it, only words; a test holds it to them.
fn is_unknown_to_proxy(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(|error| error.to_string() == "tunnel error: proxy authorization required")
}

impl Way<'_> {
    /// The answer 407, of a proxy or, senselessly, of a server.
    pub(super) fn unknown_to_proxy(&self, url: &Url) -> SourceError {
        match &self.proxy {
            Some(proxy) => SourceError::ProxyUnauthorized(proxy.clone()),
            None => SourceError::UnexpectedStatus {
                location: shown(url),
                status: 407,
            },
        }
    }

    /// What a client's error means.
    pub(crate) fn explain(&self, url: &Url, error: reqwest::Error) -> SourceError {
        let location = shown(url);
        let source = error.without_url();
        if let Some(Refused(address)) = cause::<Refused>(&source) {
            return SourceError::AddressRefused {
                location,
                address: *address,
            };
        }
        if cause::<Unresolved>(&source).is_some() {
            return SourceError::NameNotResolved { location, source };
        }
        if let Some(rustls::Error::InvalidCertificate(why)) = cause::<rustls::Error>(&source) {
            let advice = hypercloud_trust::advice(why);
            return SourceError::CertificateInvalid {
                location,
                advice,
                source,
            };
        }
        if let Some(proxy) = self.proxy.clone().filter(|_| source.is_connect()) {
            return if is_unknown_to_proxy(&source) {
                SourceError::ProxyUnauthorized(proxy)
            } else {
                SourceError::ProxyFailed {
                    proxy,
                    location,
                    source,
                }
            };
        }
        if source.is_builder() {
            SourceError::Client(source.into())
        } else if source.is_connect() {
            SourceError::ConnectFailed { location, source }
        } else if source.is_timeout() {
            SourceError::Stalled(location)
        } else if source.is_body() || source.is_decode() || source.is_request() {
            SourceError::Interrupted { location, source }
        } else {
            SourceError::Request { location, source }
        }
    }
}
