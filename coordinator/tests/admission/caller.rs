//! Whoever calls the webhook.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The name by which the API server calls the webhook.
pub const NAME: &str = "coordinator-admission.system.svc";

pub struct Caller {
    pub address: SocketAddr,
    connector: TlsConnector,
}

impl Caller {
    /// One that trusts these authorities.
    pub fn new(address: SocketAddr, authorities: &str) -> Self {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            address,
            connector: TlsConnector::from(Arc::new(config)),
        }
    }

    /// A connection to `name`.
    pub async fn connect(&self, name: &'static str) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from(name).unwrap();
        self.connector.connect(name, stream).await
    }

    /// Posts a review; the status and the body of what comes back.
    pub async fn post(&self, name: &'static str, body: &[u8]) -> io::Result<(u16, String)> {
        self.ask(name, "POST", "/hypercloudstorages?timeout=10s", body)
            .await
    }

    /// Makes one request on a connection of its own.
    pub async fn ask(
        &self,
        name: &'static str,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> io::Result<(u16, String)> {
        let mut stream = self.connect(name).await?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {name}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
        // One that is refused early need not be read to its end.
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer).await {
            Ok(_) => {}
            Err(_) if !answer.is_empty() => {}
            Err(error) => return Err(error),
        }
        let text = String::from_utf8(answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let code = code.ok_or_else(|| io::Error::other(format!("answered {head:?}")))?;
        Ok((code, body.to_owned()))
    }
}
