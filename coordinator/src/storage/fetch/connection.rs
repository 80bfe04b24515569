//! How a web server is reached: directly or through a proxy, with or without
//! TLS.

use std::io::Error as IoError;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;
use url::{Host, Position, Url};

use super::trouble::Trouble;

/// Bytes both ways.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A server that can be asked.
pub(super) struct Connection {
    /// To the server, or to the proxy that asks it.
    pub wire: Box<dyn Wire>,
    /// The proxy that asks it, where it is not asked in a tunnel.
    pub proxy: Option<ProxyAccess>,
}

/// What lets in at a proxy.
#[derive(Clone, Debug, Default)]
pub(super) struct ProxyAccess(pub Option<HeaderValue>);

/// What connections are made with.
pub(super) struct Connector {
    /// Whom servers are believed.
    pub tls: TlsConnector,
    /// Proxies between us and them.
    pub proxies: Arc<Matcher>,
    /// How long a connection may take.
    pub limit: Duration,
}

impl Connector {
    /// Reaches the server of an address.
    pub(super) async fn connect(&self, url: &Url) -> Result<Connection, Trouble> {
        let limit = self.limit;
        match tokio::time::timeout(limit, self.reach(url)).await {
            Ok(reached) => reached,
            Err(_) => Err(Trouble::Unreachable(format!(
                "no connection within {} s",
                limit.as_secs()
            ))),
        }
    }

    async fn reach(&self, url: &Url) -> Result<Connection, Trouble> {
        let secure = url.scheme() == "https";
        let (host, port) = place(url)?;
        let uri: Uri = url[..Position::AfterPath]
            .parse()
            .map_err(|_| Trouble::Refused("it is no address".to_owned()))?;
        let wire = match self.proxies.intercept(&uri) {
            None => Box::new(self.dial(&host, port).await?),
            Some(proxy) => {
                let wire = self.proxy(&proxy).await?;
                let access = ProxyAccess(proxy.basic_auth().cloned());
                if !secure {
                    let proxy = Some(access);
                    return Ok(Connection { wire, proxy });
                }
                tunnel(wire, &authority(url, port), access).await?
            }
        };
        let wire = match secure {
            true => self.secure(wire, host).await?,
            false => wire,
        };
        Ok(Connection { wire, proxy: None })
    }

    async fn proxy(&self, proxy: &Intercept) -> Result<Box<dyn Wire>, Trouble> {
        let uri = proxy.uri();
        let host = uri.host().unwrap_or_default();
        let host = host.trim_matches(['[', ']']).to_owned();
        let (secure, port) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") | None => (false, 80),
            Some(other) => {
                let why = format!("the proxy that is set is one for {other}, not http");
                return Err(Trouble::Refused(why));
            }
        };
        let port = uri.port_u16().unwrap_or(port);
        let through = |trouble| match trouble {
            Trouble::Unreachable(why) => Trouble::Unreachable(format!("the proxy: {why}")),
            other => other,
        };
        let wire = Box::new(self.dial(&host, port).await.map_err(through)?);
        match secure {
            true => self.secure(wire, host).await,
            false => Ok(wire),
        }
    }

    /// Connects to one address after the other; the first ones leave time for
    /// the others.
    async fn dial(&self, host: &str, port: u16) -> Result<TcpStream, Trouble> {
        let unknown =
            |error: IoError| Trouble::Unreachable(format!("{host} cannot be resolved: {error}"));
        let addresses = tokio::net::lookup_host((host, port)).await;
        let addresses: Vec<_> = addresses.map_err(unknown)?.collect();
        let share = self.limit / u32::try_from(addresses.len().clamp(1, 3)).unwrap_or(1);
        let mut why = format!("{host} has no address");
        for address in addresses {
            match tokio::time::timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => why = format!("{address}: {error}"),
                Err(_) => why = format!("{address} does not answer"),
            }
        }
        Err(Trouble::Unreachable(why))
    }

    async fn secure(&self, wire: Box<dyn Wire>, host: String) -> Result<Box<dyn Wire>, Trouble> {
        let name = ServerName::try_from(host)
            .map_err(|_| Trouble::Refused("its name cannot be one of a certificate".to_owned()))?;
        match self.tls.connect(name, wire).await {
            Ok(wire) => Ok(Box::new(wire)),
            Err(error) => Err(judge(&error)),
        }
    }
}

/// Asks a proxy for a tunnel.
async fn tunnel(
    wire: Box<dyn Wire>,
    authority: &str,
    access: ProxyAccess,
) -> Result<Box<dyn Wire>, Trouble> {
    let failed = |error: hyper::Error| Trouble::Unreachable(format!("the proxy: {error}"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(wire)).await.map_err(failed)?;
    // Ends with the tunnel, which it becomes.
    let driven = AbortOnDropHandle::new(tokio::spawn(connection.with_upgrades()));
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri(authority)
        .header(HOST, authority);
    if let ProxyAccess(Some(access)) = access {
        request = request.header(PROXY_AUTHORIZATION, access);
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|error| Trouble::Refused(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(failed)?;
    if !response.status().is_success() {
        let why = format!("the proxy answers {}", response.status());
        return Err(Trouble::Unreachable(why));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(failed)?;
    drop(driven);
    Ok(Box::new(TokioIo::new(upgraded)))
}

/// Host and port of an address.
fn place(url: &Url) -> Result<(String, u16), Trouble> {
    let host = match url.host() {
        Some(Host::Domain(name)) => name.to_owned(),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        None => return Err(Trouble::Refused("its address has no host".to_owned())),
    };
    let port = url.port_or_known_default().unwrap_or(80);
    Ok((host, port))
}

/// Host and port of an address, as they are written.
fn authority(url: &Url, port: u16) -> String {
    format!("{}:{port}", url.host_str().unwrap_or_default())
}

/// Why there is no TLS.
fn judge(error: &IoError) -> Trouble {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => {
            let advice = hypercloud_trust::advice(why);
            Trouble::Untrusted(format!("its certificate is not accepted: {advice}"))
        }
        _ => Trouble::Unreachable(format!("no TLS: {error}")),
    }
}
