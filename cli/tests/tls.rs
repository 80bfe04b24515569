//! HTTPS, with the system's certificates replaced for the command by its
//! environment.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A server with a certificate of its own; its port, and that certificate.
async fn serve() -> (u16, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust the certificate ends here.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let head = "HTTP/1.1 206 Part\r\nContent-Length: 1024\r\n\
                        Content-Range: bytes 0-1023/1024\r\n\r\n";
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&[7; 1024]).await;
            let _ = stream.flush().await;
        }
    });
    (port, made.cert.pem())
}

async fn probe(port: u16, system: &Path, more: &[&str]) -> (i32, serde_json::Value) {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_hcs"))
        .args([
            "image",
            "probe",
            &format!("https://localhost:{port}/image"),
            "-o",
            "json",
        ])
        .args(more)
        .env("SSL_CERT_FILE", system)
        .env_remove("SSL_CERT_DIR")
        .output()
        .await
        .unwrap();
    (
        output.status.code().unwrap(),
        serde_json::from_slice(&output.stdout).unwrap(),
    )
}

#[tokio::test]
async fn a_certificate_is_judged_by_the_systems() {
    let directory = tempfile::tempdir().unwrap();
    let (port, certificate) = serve().await;
    let (_, stranger) = serve().await;
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let own = write("own.pem", &certificate);
    let (code, facts) = probe(port, &own, &[]).await;
    assert_eq!((code, &facts["virtualSize"]), (0, &1024.into()));
    for path in [write("stranger.pem", &stranger), write("empty.pem", "")] {
        let (code, event) = probe(port, &path, &[]).await;
        assert_eq!(
            (code, &event["reason"]),
            (4, &"CertificateInvalid".into()),
            "{event}"
        );
        // Unless the command is told to trust it.
        let ca = own.to_str().unwrap();
        let more = ["--ca", ca, "--header", "X-Token: word"];
        let (code, facts) = probe(port, &path, &more).await;
        assert_eq!((code, &facts["virtualSize"]), (0, &1024.into()), "{facts}");
    }
    let (code, _) = probe(port, &own, &["--header", "X-Token: two\u{7f}words"]).await;
    assert_ne!(code, 0);
    let none = directory.path().join("none.pem");
    let (code, event) = probe(port, &own, &["--ca", none.to_str().unwrap()]).await;
    assert_eq!((code, &event["reason"]), (2, &"InvalidAuthorities".into()));
}
