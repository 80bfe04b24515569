//! A file from a web server.

use std::error::Error;
use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, HOST, LOCATION, PROXY_AUTHORIZATION, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use hypercloud_storage::manifest::source::MAX_FILE;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use url::{Position, Url};

use super::Terms;
use super::config_map::Given;
use super::connection::{Connection, Connector, ProxyAccess};
use super::trouble::{Authorities, Trouble};

/// Servers that send on are followed this often.
const REDIRECTS: usize = 5;

/// As what servers know us.
const AGENT: &str = concat!("hypercloud-storage/", env!("CARGO_PKG_VERSION"));

/// Web servers, as they are reached and believed.
pub(super) struct Web {
    connector: Connector,
    terms: Terms,
}

/// What a server answers.
enum Answer {
    File(Vec<u8>),
    Elsewhere(String),
}

impl Web {
    /// Servers that are also believed by the certificates that are given.
    pub(super) fn new(given: Option<&Given>, terms: Terms) -> Result<Self, Authorities> {
        let config = hypercloud_trust::configuration(given.map(|given| given.pem.as_str()));
        let config = config.map_err(|why| Authorities {
            config_map: given.map_or_else(String::new, |given| given.config_map.clone()),
            why: format!("is not usable: {why}"),
        })?;
        let connector = Connector {
            tls: TlsConnector::from(Arc::new(config)),
            proxies: terms.proxies.clone(),
            limit: terms.connect,
        };
        Ok(Self { connector, terms })
    }

    /// The file at an address.
    pub(super) async fn get(&self, address: &str) -> Result<Vec<u8>, Trouble> {
        let limit = self.terms.whole;
        match tokio::time::timeout(limit, self.follow(address)).await {
            Ok(got) => got,
            Err(_) => Err(Trouble::Unreachable(format!(
                "it was not there within {} s",
                limit.as_secs()
            ))),
        }
    }

    async fn follow(&self, address: &str) -> Result<Vec<u8>, Trouble> {
        let mut url = Url::parse(address)
            .map_err(|error| Trouble::Refused(format!("it is no address: {error}")))?;
        for _ in 0..=REDIRECTS {
            judge(&url)?;
            match self.ask(&url).await? {
                Answer::File(bytes) => return Ok(bytes),
                Answer::Elsewhere(location) => url = next(&url, &location)?,
            }
        }
        let why = format!("it leads on more than {REDIRECTS} times");
        Err(Trouble::Refused(why))
    }

    async fn ask(&self, url: &Url) -> Result<Answer, Trouble> {
        let Connection { wire, proxy } = self.connector.connect(url).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(wire))
            .await
            .map_err(|error| broken(&error))?;
        let _driven = AbortOnDropHandle::new(tokio::spawn(connection));
        let request = request(url, proxy)?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| broken(&error))?;
        let status = response.status();
        match status {
            StatusCode::OK => body(response).await.map(Answer::File),
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT => location(&response).map(Answer::Elsewhere),
            StatusCode::NOT_FOUND | StatusCode::GONE => Err(Trouble::Missing),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                Err(Trouble::Unreachable(format!("it answers {status}")))
            }
            _ if status.is_server_error() => {
                Err(Trouble::Unreachable(format!("it answers {status}")))
            }
            _ => Err(Trouble::Refused(format!("it answers {status}"))),
        }
    }
}

/// A request for the file; a proxy is told the whole address.
fn request(url: &Url, proxy: Option<ProxyAccess>) -> Result<Request<Empty<Bytes>>, Trouble> {
    let uri = match proxy {
        Some(_) => &url[..Position::AfterQuery],
        None => &url[Position::BeforePath..Position::AfterQuery],
    };
    let mut request = Request::get(uri)
        .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(USER_AGENT, AGENT)
        // A checksum is one of the bytes as they are.
        .header(ACCEPT_ENCODING, "identity");
    if let Some(ProxyAccess(Some(access))) = proxy {
        request = request.header(PROXY_AUTHORIZATION, access);
    }
    request
        .body(Empty::new())
        .map_err(|error| Trouble::Refused(format!("it is no address: {error}")))
}

/// The bytes of an answer, as far as they are not too many.
async fn body(response: Response<Incoming>) -> Result<Vec<u8>, Trouble> {
    let mut body = response.into_body();
    if body.size_hint().lower() > MAX_FILE {
        return Err(Trouble::TooLarge);
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        if let Some(data) = frame.data_ref() {
            bytes.extend_from_slice(data);
        }
        if bytes.len() as u64 > MAX_FILE {
            return Err(Trouble::TooLarge);
        }
    }
    Ok(bytes)
}

fn location(response: &Response<Incoming>) -> Result<String, Trouble> {
    let location = response.headers().get(LOCATION);
    let location = location.and_then(|location| location.to_str().ok());
    location
        .map(str::to_owned)
        .ok_or_else(|| Trouble::Refused("it leads on, and does not say where to".to_owned()))
}

/// Where an answer leads. What was asked for with TLS is not taken without.
fn next(url: &Url, location: &str) -> Result<Url, Trouble> {
    let next = url
        .join(location)
        .map_err(|error| Trouble::Refused(format!("it leads on to what is no address: {error}")))?;
    if url.scheme() == "https" && next.scheme() != "https" {
        let why = format!("it leads from https on to {}", next.scheme());
        return Err(Trouble::Refused(why));
    }
    Ok(next)
}

/// An address as people may read it.
pub(super) fn shown(address: &str) -> String {
    match Url::parse(address) {
        Ok(mut url) if url.password().is_some() => {
            // Fails for addresses without a host, which have no password.
            let _ = url.set_password(None);
            url.into()
        }
        _ => address.to_owned(),
    }
}

/// Refuses what is no address of a web server, and one that holds credentials:
/// those belong into a Secret, and nothing here reads one.
fn judge(url: &Url) -> Result<(), Trouble> {
    if !matches!(url.scheme(), "http" | "https") {
        let why = format!("{} is neither http nor https", url.scheme());
        return Err(Trouble::Refused(why));
    }
    if !url.username().is_empty() || url.password().is_some() {
        let why = "its address holds credentials, which are not sent".to_owned();
        return Err(Trouble::Refused(why));
    }
    Ok(())
}

/// What went wrong with a connection, and why.
fn broken(error: &hyper::Error) -> Trouble {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        why = format!("{why}: {inner}");
        source = inner.source();
    }
    Trouble::Unreachable(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_leads_on_but_not_out_of_tls() {
        let url = Url::parse("https://a.example/x/y").unwrap();
        let to = |location: &str| next(&url, location).map(String::from);
        assert_eq!(to("z").unwrap(), "https://a.example/x/z");
        assert_eq!(to("//b.example/z").unwrap(), "https://b.example/z");
        assert!(matches!(to("http://a.example/"), Err(Trouble::Refused(_))));
        assert!(matches!(to("file:///etc"), Err(Trouble::Refused(_))));
    }

    #[test]
    fn a_password_is_not_shown() {
        assert_eq!(
            shown("https://me:word@a.example/x"),
            "https://me@a.example/x"
        );
        for address in ["http://a.example/m/../x", "no address"] {
            assert_eq!(shown(address), address);
        }
    }

    #[test]
    fn only_addresses_of_web_servers_are_asked() {
        let judged = |text: &str| judge(&Url::parse(text).unwrap());
        assert_eq!(judged("http://a.example/"), Ok(()));
        for text in [
            "ftp://a.example/",
            "https://me:word@a.example/",
            "file:///x",
        ] {
            let trouble = judged(text).unwrap_err();
            assert!(!format!("{trouble:?}").contains("word"), "{trouble:?}");
        }
    }
}
