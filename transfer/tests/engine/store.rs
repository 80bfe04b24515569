//! An S3 server on loopback. The protocol, its signatures and its errors are
//! those of a real implementation; the objects are in memory, and it can be
//! told to misbehave.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use hyper::Response;
use hyper::http::request::Parts;
use hyper_util::rt::TokioIo;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::{GetObjectInput, GetObjectOutput, StreamingBlob};
use s3s::host::SingleDomain;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, S3, S3Request, S3Response, S3Result, s3_error};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The only keys that the server knows.
pub const KEYS: (&str, &str) = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");

/// The bucket that is there.
pub const BUCKET: &str = "images";

/// Answers in the server's place, or does not; told how many requests came
/// before.
pub type Twist = dyn Fn(&Parts, usize) -> Option<Response<Body>> + Send + Sync;

/// What the server is to be like.
pub struct Setup {
    pub address: IpAddr,
    /// Objects by their keys.
    pub objects: HashMap<String, Bytes>,
    /// Whether everybody may read.
    pub public: bool,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub twist: Option<Box<Twist>>,
}

impl Setup {
    pub fn with(key: &str, bytes: &[u8]) -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            objects: HashMap::from([(key.to_owned(), Bytes::copy_from_slice(bytes))]),
            public: false,
            tls: None,
            twist: None,
        }
    }

    pub fn twisted(
        mut self,
        twist: impl Fn(&Parts, usize) -> Option<Response<Body>> + Send + Sync + 'static,
    ) -> Self {
        self.twist = Some(Box::new(twist));
        self
    }
}

/// A refusal in the protocol's own words.
pub fn refusal(status: u16, code: &str, rest: &str) -> Response<Body> {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>{rest}</Error>"
    );
    Response::builder()
        .status(status)
        .header("Content-Type", "application/xml")
        .header("Content-Length", body.len())
        .body(Body::from(body.into_bytes()))
        .unwrap()
}

struct Objects(HashMap<String, Bytes>);

#[async_trait::async_trait]
impl S3 for Objects {
    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        if input.bucket != BUCKET {
            return Err(s3_error!(NoSuchBucket));
        }
        let whole = self.0.get(&input.key).ok_or(s3_error!(NoSuchKey))?;
        let length = whole.len();
        let (part, content_range) = match input.range {
            None => (whole.clone(), None),
            Some(range) => {
                let part = range.check(length as u64)?;
                let words = format!("bytes {}-{}/{length}", part.start, part.end - 1);
                let part = whole.slice(part.start as usize..part.end as usize);
                (part, Some(words))
            }
        };
        Ok(S3Response::new(GetObjectOutput {
            content_length: Some(part.len() as i64),
            content_range,
            e_tag: Some("\"v1\"".into()),
            body: Some(StreamingBlob::from(Body::from(part))),
            ..GetObjectOutput::default()
        }))
    }
}

struct Keys;

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, id: &str) -> S3Result<SecretKey> {
        if id == KEYS.0 {
            Ok(KEYS.1.into())
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

/// A server, for as long as this lives.
pub struct Store {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Store {
    pub async fn start(setup: Setup) -> Self {
        let listener = TcpListener::bind((setup.address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut builder = S3ServiceBuilder::new(Objects(setup.objects));
        builder.set_auth(Keys);
        // Known by its address, and by a name that may have buckets before it.
        if setup.address.is_ipv4() {
            builder.set_host(Host {
                named: SingleDomain::new(&format!("localhost:{}", address.port())).unwrap(),
                address: address.to_string(),
            });
        }
        if setup.public {
            builder.set_access(Everybody);
        }
        let inner = Arc::new(Inner {
            service: builder.build(),
            twist: setup.twist,
            seen: Arc::default(),
        });
        let seen = Arc::clone(&inner.seen);
        let tls = setup.tls.map(TlsAcceptor::from);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (inner, tls) = (Arc::clone(&inner), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => inner.serve(stream).await,
                        Some(tls) => {
                            // Who does not trust it ends here.
                            if let Ok(stream) = tls.accept(stream).await {
                                inner.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    /// What was asked: each request's host and target.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Host {
    named: SingleDomain,
    address: String,
}

impl s3s::host::S3Host for Host {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<s3s::host::VirtualHost<'a>> {
        if host == self.address {
            return Ok(s3s::host::VirtualHost::new(host));
        }
        self.named.parse_host_header(host)
    }
}

struct Inner {
    service: S3Service,
    twist: Option<Box<Twist>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Inner {
    async fn serve(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let service = hyper::service::service_fn(|request| {
            let inner = Arc::clone(&self);
            async move { inner.answer(request).await }
        });
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn answer(
        &self,
        request: hyper::Request<hyper::body::Incoming>,
    ) -> S3Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let number = {
            let host = parts.headers.get("host").map(|host| host.to_str().unwrap());
            let mut seen = self.seen.lock().unwrap();
            seen.push(format!("{}{}", host.unwrap_or_default(), parts.uri));
            seen.len() - 1
        };
        if let Some(answer) = self.twist.as_ref().and_then(|twist| twist(&parts, number)) {
            return Ok(answer);
        }
        let request = hyper::Request::from_parts(parts, Body::from(body));
        self.service.call(request).await
    }
}
