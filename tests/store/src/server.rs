//! The server before the store: connections, TLS, who is let in, and who
//! answers in the store's place.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::Response;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::host::{S3Host, SingleDomain, VirtualHost};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, S3Result, s3_error};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::objects::Objects;
use crate::protocol::Shared;
use crate::{Setup, Twist};

/// What all connections share.
pub(crate) struct Inner {
    service: S3Service,
    seen: Mutex<Vec<(String, String)>>,
}

struct Keys((String, String));

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, id: &str) -> S3Result<SecretKey> {
        let (access_key, secret_key) = &self.0;
        if id == access_key {
            Ok(secret_key.as_str().into())
        } else {
            Err(s3_error!(InvalidAccessKeyId))
        }
    }
}

struct Everybody;

#[async_trait::async_trait]
impl S3Access for Everybody {
    async fn check(&self, _: &mut S3AccessContext<'_>) -> S3Result<()> {
        Ok(())
    }
}

/// Buckets may stand before `localhost`. By every other name the server is
/// called, they are in the path.
struct Host {
    port: u16,
    named: Option<SingleDomain>,
}

impl S3Host for Host {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let local = format!("localhost:{}", self.port);
        match &self.named {
            Some(named) if host.ends_with(&local) => named.parse_host_header(host),
            _ => Ok(VirtualHost::new(host)),
        }
    }
}

impl Inner {
    pub fn new(setup: &Setup, objects: Arc<Objects>, address: SocketAddr) -> Self {
        let mut builder = S3ServiceBuilder::new(Shared(objects));
        builder.set_auth(Keys(setup.keys.clone()));
        let port = address.port();
        let named = SingleDomain::new(&format!("localhost:{port}")).ok();
        builder.set_host(Host { port, named });
        if setup.public {
            builder.set_access(Everybody);
        }
        Self {
            service: builder.build(),
            seen: Mutex::default(),
        }
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen
            .lock()
            .iter()
            .map(|(_, target)| target.clone())
            .collect()
    }

    pub fn requests(&self) -> Vec<String> {
        let seen = self.seen.lock();
        seen.iter()
            .map(|(method, target)| format!("{method} {target}"))
            .collect()
    }

    pub async fn listen(
        self: Arc<Self>,
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        twist: Option<Box<Twist>>,
    ) {
        let tls = tls.map(TlsAcceptor::from);
        let twist = Arc::new(twist);
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let (inner, tls, twist) = (Arc::clone(&self), tls.clone(), Arc::clone(&twist));
            tokio::spawn(async move {
                match tls {
                    None => inner.serve(stream, &twist).await,
                    Some(tls) => {
                        // Who does not trust it ends here.
                        if let Ok(stream) = tls.accept(stream).await {
                            inner.serve(stream, &twist).await;
                        }
                    }
                }
            });
        }
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin, twist: &Option<Box<Twist>>) {
        let service = hyper::service::service_fn(|request| self.answer(request, twist));
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn answer(
        &self,
        request: hyper::Request<hyper::body::Incoming>,
        twist: &Option<Box<Twist>>,
    ) -> S3Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let number = {
            let host = parts
                .headers
                .get("host")
                .and_then(|host| host.to_str().ok());
            let target = format!("{}{}", host.unwrap_or_default(), parts.uri);
            let mut seen = self.seen.lock();
            seen.push((parts.method.to_string(), target));
            seen.len() - 1
        };
        if let Some(answer) = twist.as_ref().and_then(|twist| twist(&parts, number)) {
            return Ok(answer);
        }
        let request = hyper::Request::from_parts(parts, Body::from(body));
        self.service.call(request).await
    }
}
