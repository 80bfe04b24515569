//! A server that not everybody is let in at: TLS by a certificate of its own
//! authority, Basic credentials, and a header with a token.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use k8s_openapi::ByteString;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Header with the token.
const TOKEN: &str = "x-image-token";

/// What is asked for.
#[derive(Clone)]
pub struct Guard {
    /// The user's name.
    pub username: &'static str,
    /// The password.
    pub password: &'static str,
    /// Value of the header `X-Image-Token`; none is asked for without it.
    pub token: Option<&'static str>,
}

impl Guard {
    /// Puts the guard before `router`.
    pub(super) fn before(self, router: Router) -> Router {
        router.layer(from_fn(move |request: Request, next: Next| {
            let guard = self.clone();
            async move {
                match guard.judge(request.headers()) {
                    None => next.run(request).await,
                    Some(refusal) => refusal,
                }
            }
        }))
    }

    fn judge(&self, headers: &HeaderMap) -> Option<Response> {
        let shown = |name: &str| headers.get(name).map(|value| value.as_bytes());
        if shown(header::AUTHORIZATION.as_str()) != Some(self.authorization().as_bytes()) {
            let ask = [(header::WWW_AUTHENTICATE, "Basic realm=\"images\"")];
            return Some((StatusCode::UNAUTHORIZED, ask).into_response());
        }
        let token = self.token.map(str::as_bytes);
        (shown(TOKEN) != token).then(|| StatusCode::FORBIDDEN.into_response())
    }

    /// The `Authorization` header that lets in.
    fn authorization(&self) -> String {
        let login = format!("{}:{}", self.username, self.password);
        // Kubernetes' own way to write bytes is base64.
        let encoded = serde_json::to_value(ByteString(login.into_bytes()));
        let encoded = encoded.unwrap_or_default();
        format!("Basic {}", encoded.as_str().unwrap_or_default())
    }
}

/// Connections that have been encrypted.
pub(super) struct Tls {
    address: SocketAddr,
    accepted: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl Tls {
    /// Encrypts what `listener` accepts, and says by whose authority.
    pub(super) fn new(listener: TcpListener) -> anyhow::Result<(Self, String)> {
        let address = listener.local_addr()?;
        let (config, authority) = identity(address)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (sender, accepted) = mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                let (acceptor, sender) = (acceptor.clone(), sender.clone());
                if sender.is_closed() {
                    return;
                }
                // Who does not trust the certificate hangs up here.
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = sender.send((stream, peer)).await;
                    }
                });
            }
        });
        Ok((Self { address, accepted }, authority))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl axum::serve::Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.accepted.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// A certificate for `address`, and the authority that signed it.
fn identity(address: SocketAddr) -> anyhow::Result<(ServerConfig, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec![])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec![address.ip().to_string()])?;
    let certificate = params.signed_by(&key, &issuer)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)?;
    Ok((config, authority))
}
