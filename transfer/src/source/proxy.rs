//! Which proxy a request goes through.

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use reqwest::Proxy;
use url::Url;

use crate::error::SourceError;
use crate::proxy::ProxySettings;
use crate::secret::Secret;

/// One of the proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// For http addresses.
    Http,
    /// For https addresses.
    Https,
}

/// Decides on the proxy.
pub(super) struct Choice {
    http: Option<Intercept>,
    https: Option<Intercept>,
    /// Matches what no exception is made of.
    unless_excepted: Matcher,
    /// Everything is an exception: the matcher takes `*` for any name, and
    /// not for addresses.
    none: bool,
}

impl Choice {
    pub(super) fn new(settings: &ProxySettings) -> Result<Self, SourceError> {
        let read = |proxy: &Option<Secret>| proxy.as_ref().map(read).transpose();
        Ok(Self {
            http: read(&settings.http)?,
            https: read(&settings.https)?,
            unless_excepted: Matcher::builder()
                .all("http://proxy.invalid")
                .no(settings.except.as_str())
                .build(),
            none: settings.except.split(',').any(|host| host.trim() == "*"),
        })
    }

    fn get(&self, which: Which) -> Option<&Intercept> {
        match which {
            Which::Http => self.http.as_ref(),
            Which::Https => self.https.as_ref(),
        }
    }

    /// The proxy for an address.
    pub(super) fn of(&self, url: &Url) -> Option<Which> {
        let which = if url.scheme() == "https" {
            Which::Https
        } else {
            Which::Http
        };
        self.get(which).filter(|_| !self.none)?;
        let uri: Uri = url.as_str().parse().ok()?;
        self.unless_excepted.intercept(&uri).map(|_| which)
    }

    /// A proxy's address, as it may be shown.
    pub(super) fn shown(&self, which: Which) -> String {
        self.get(which)
            .map(|proxy| proxy.uri().to_string())
            .unwrap_or_default()
    }

    /// A proxy, for a client that goes through it and nowhere else.
    pub(super) fn proxy(&self, which: Which) -> Option<reqwest::Result<Proxy>> {
        let found = self.get(which)?;
        let credentials = found.basic_auth().cloned();
        let proxy = Proxy::all(found.uri().to_string());
        Some(proxy.map(|proxy| match credentials {
            Some(credentials) => proxy.custom_http_auth(credentials),
            None => proxy,
        }))
    }
}

/// Reads a proxy's address.
fn read(proxy: &Secret) -> Result<Intercept, SourceError> {
    Matcher::builder()
        .all(proxy.reveal().trim())
        .build()
        .intercept(&Uri::from_static("http://source.invalid/"))
        .filter(|found| matches!(found.uri().scheme_str(), Some("http" | "https")))
        .ok_or(SourceError::InvalidProxy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(except: &str) -> Choice {
        Choice::new(&ProxySettings {
            http: Some(Secret::new("me:word@proxy.example:3128")),
            https: None,
            except: except.into(),
        })
        .unwrap()
    }

    #[test]
    fn the_scheme_and_the_exceptions_decide() {
        let through = |except: &str, url: &str| choice(except).of(&Url::parse(url).unwrap());
        let proxied = Some(Which::Http);
        assert_eq!(through("", "http://a.example/x"), proxied);
        assert_eq!(through("", "https://a.example/x"), None);
        assert_eq!(through("a.example", "http://a.example/x"), None);
        assert_eq!(through("b.example, .example", "http://a.example/x"), None);
        assert_eq!(through("b.example", "http://ab.example/x"), proxied);
        assert_eq!(through("10.0.0.0/8", "http://10.1.2.3:80/x"), None);
        assert_eq!(through("10.0.0.0/8", "http://11.1.2.3/x"), proxied);
        assert_eq!(through("fd00::/8", "http://[fd12::1]/x"), None);
        assert_eq!(through("*", "http://a.example/x"), None);
        assert_eq!(through("b.example, *", "http://10.1.2.3/x"), None);
        assert_eq!(choice("").shown(Which::Http), "http://proxy.example:3128/");
    }

    #[test]
    fn what_is_no_http_proxy_is_named() {
        for wrong in ["socks5://proxy:1080", "ftp://proxy", "http://", "a b"] {
            let settings = ProxySettings {
                https: Some(Secret::new(wrong)),
                ..ProxySettings::default()
            };
            let error = Choice::new(&settings).err();
            assert!(matches!(error, Some(SourceError::InvalidProxy)), "{wrong}");
        }
    }
}
