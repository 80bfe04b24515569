//! Sending requests: with credentials where they belong, through the proxy
//! where there is one, after redirects wherever they lead.

use hypercloud_disk::Extent;
use reqwest::header::{ACCEPT_ENCODING, IF_RANGE, LOCATION, RANGE};
use reqwest::{Response, StatusCode};
use url::{Origin, Url};

use super::address::Address;
use super::answer::Failure;
use super::credentials::{Credentials, without_user};
use super::redirect::{HOPS, is_redirect, next};
use super::refusal;
use crate::error::SourceError;
use crate::options::Options;
use crate::request::HttpAccess;
use crate::source::address::{Refused, judge_literal};
use crate::source::client::{Clients, shown};

/// Sends requests for one file.
pub(super) struct Requests {
    clients: Clients,
    options: Options,
    address: Address,
    credentials: Credentials,
    /// Whether encryption may not be given up on the way.
    guarded: bool,
}

/// What is asked of the server.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) range: Option<Extent>,
    /// Sent along, so that a changed file is not given in part.
    pub(super) if_range: Option<&'a str>,
}

impl Asking<'_> {
    /// The whole file, whichever it is.
    pub(super) const WHOLE: Self = Self {
        range: None,
        if_range: None,
    };
}

/// An answer that is no redirect.
pub(super) struct Answer {
    pub(super) response: Response,
    /// The URL that gave it.
    pub(super) url: Url,
    /// Whether redirects led there.
    pub(super) led: bool,
}

impl Requests {
    pub(super) fn new(
        address: Address,
        access: &HttpAccess,
        options: &Options,
    ) -> Result<Self, SourceError> {
        let (address, credentials, signed) = match address {
            Address::Fixed(url) => {
                let credentials = Credentials::new(access, Some(&url))?;
                (Address::Fixed(without_user(url)), credentials, false)
            }
            signed @ Address::Signed(_) => (signed, Credentials::new(access, None)?, true),
        };
        Ok(Self {
            clients: Clients::new(access, options)?,
            options: options.clone(),
            guarded: signed || !credentials.is_empty() || access.authorities.is_some(),
            address,
            credentials,
        })
    }

    /// The address as it may be shown.
    pub(super) fn shown(&self) -> String {
        self.address.shown()
    }

    /// Whether where redirects led may be asked by itself.
    pub(super) fn leads_on(&self) -> bool {
        matches!(self.address, Address::Fixed(_))
    }

    /// Asks where redirects `led` before, or the address itself, and wherever
    /// that redirects to.
    pub(super) async fn ask(
        &self,
        led: Option<&Url>,
        asking: Asking<'_>,
    ) -> Result<Answer, Failure> {
        let (mut url, origin) = match (&self.address, led) {
            (Address::Fixed(given), led) => (led.unwrap_or(given).clone(), given.origin()),
            (Address::Signed(signer), _) => {
                let url = signer.sign().await?;
                let origin = url.origin();
                (url, origin)
            }
        };
        let first = shown(&url);
        for hop in 0..=HOPS {
            let mut response = self.send(&url, &origin, asking).await?;
            if let Address::Signed(signer) = &self.address {
                let refused = refusal::explain(&**signer, &self.options, &mut response).await;
                if let Some(failure) = refused {
                    return Err(failure);
                }
            }
            if !is_redirect(response.status()) {
                let led = hop > 0;
                return Ok(Answer { response, url, led });
            }
            let location = response.headers().get(LOCATION);
            let location = location.and_then(|value| value.to_str().ok());
            url = next(&url, location, self.guarded)?;
        }
        Err(SourceError::TooManyRedirects(first).into())
    }

    async fn send(
        &self,
        url: &Url,
        origin: &Origin,
        asking: Asking<'_>,
    ) -> Result<Response, Failure> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(SourceError::UnsupportedScheme(shown(url)).into());
        }
        if let Err(Refused(address)) = judge_literal(self.options.address_policy, url) {
            return Err(SourceError::AddressRefused {
                location: shown(url),
                address,
            }
            .into());
        }
        let way = self.clients.way(url);
        let request = way.client.get(url.clone());
        let mut request = self
            .credentials
            .show(request, url, origin)
            .header(ACCEPT_ENCODING, "identity");
        if let Some(range) = asking.range {
            request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end() - 1));
            if let Some(validator) = asking.if_range {
                request = request.header(IF_RANGE, validator);
            }
        }
        let patience = self.options.connect_timeout + self.options.stall_timeout;
        match tokio::time::timeout(patience, request.send()).await {
            Ok(Ok(response)) if response.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Err(way.unknown_to_proxy(url).into())
            }
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(way.explain(url, error).into()),
            Err(_) => Err(SourceError::Stalled(shown(url)).into()),
        }
    }

    /// What a client's error while a body came means.
    pub(super) fn explain(&self, url: &Url, error: reqwest::Error) -> SourceError {
        self.clients.way(url).explain(url, error)
    }
}
