//! A web server that answers as it is told, with and without TLS, and a proxy
//! before it.

use std::collections::BTreeMap;
use std::io::Result as IoResult;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use http::{StatusCode, Uri, header};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How a path is answered.
#[derive(Clone)]
pub enum Reply {
    File(Vec<u8>),
    Status(u16),
    To(String),
    /// Never.
    Hang,
    /// Bytes without an end, and without saying how many.
    Endless,
    /// The file once so many ask at a time.
    Together(Arc<Barrier>),
}

#[derive(Clone, Default)]
pub struct Site {
    replies: Arc<Mutex<BTreeMap<String, Reply>>>,
    asked: Arc<Mutex<Vec<String>>>,
    port: u16,
}

impl Site {
    /// One that anybody can read along.
    pub async fn plain() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let site = Self {
            port,
            ..Self::default()
        };
        tokio::spawn(axum::serve(listener, site.router()).into_future());
        site
    }

    /// One with TLS, and the certificate of its authority, as PEM.
    pub async fn secure() -> (Self, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["127.0.0.1".into()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let config = ServerConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let site = Self {
            port,
            ..Self::default()
        };
        let listener = Secure(listener, TlsAcceptor::from(Arc::new(config)));
        tokio::spawn(axum::serve(listener, site.router()).into_future());
        (site, certificate.pem())
    }

    fn router(&self) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn set(&self, path: &str, reply: Reply) {
        self.replies.lock().unwrap().insert(path.to_owned(), reply);
    }

    /// Paths that were asked for since the last question.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn answer(State(site): State<Site>, uri: Uri) -> Response {
    let path = uri.path().to_owned();
    site.asked.lock().unwrap().push(path.clone());
    let reply = site.replies.lock().unwrap().get(&path).cloned();
    match reply {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(Reply::File(bytes)) => bytes.into_response(),
        Some(Reply::Status(code)) => StatusCode::from_u16(code).unwrap().into_response(),
        Some(Reply::To(to)) => (StatusCode::FOUND, [(header::LOCATION, to)]).into_response(),
        Some(Reply::Hang) => std::future::pending().await,
        Some(Reply::Endless) => {
            let chunk = Bytes::from(vec![b'#'; 1 << 20]);
            let chunks = futures::stream::repeat_with(move || Ok::<_, String>(chunk.clone()));
            Body::from_stream(chunks).into_response()
        }
        Some(Reply::Together(barrier)) => {
            barrier.wait().await;
            b"# not what was released".to_vec().into_response()
        }
    }
}

struct Secure(TcpListener, TlsAcceptor);

impl Listener for Secure {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok((stream, address)) = self.0.accept().await else {
                continue;
            };
            // Who does not trust us goes away again.
            if let Ok(stream) = self.1.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> IoResult<SocketAddr> {
        self.0.local_addr()
    }
}

/// A proxy that lets those in who show `access`, and writes down what it was
/// asked for.
pub async fn proxy(access: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(pass(stream, access, log.clone()));
        }
    });
    (port, asked)
}

async fn pass(stream: TcpStream, access: &str, log: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) <= 2 {
            break;
        }
        head.push(line.trim_end().to_owned());
    }
    let Some(first) = head.first().cloned() else {
        return;
    };
    log.lock().unwrap().push(first.clone());
    let shown = format!("proxy-authorization: {access}");
    if !head.iter().any(|line| line.eq_ignore_ascii_case(&shown)) {
        let answer = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.unwrap();
        return;
    }
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    if method == "CONNECT" {
        let mut server = TcpStream::connect(target).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\n\r\n";
        stream.write_all(answer).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
        return;
    }
    let url = url::Url::parse(target).unwrap();
    let address = ("127.0.0.1", url.port().unwrap());
    let mut server = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        url.path()
    );
    server.write_all(request.as_bytes()).await.unwrap();
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
}
