//! Certificates: whom a server is believed.

use std::sync::Arc;

use hypercloud_transfer::{HttpAccess, Options, Side, TransferError, probe};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use crate::image::{assert_same, disk};
use crate::server::{Reply, Server};
use crate::watch::{file, http, http_with, options, run};

/// An authority, as PEM, and a server's certificate of it.
pub fn authority(names: &[&str], expired: bool) -> (String, TlsAcceptor) {
    let (key, server_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    if expired {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    }
    let certificate = params.signed_by(&server_key, &issuer).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let config = ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(server_key.serialize_der()).unwrap(),
        )
        .unwrap();
    (pem, TlsAcceptor::from(Arc::new(config)))
}

pub fn trusting(pem: &str) -> HttpAccess {
    HttpAccess {
        authorities: Some(pem.into()),
        ..HttpAccess::default()
    }
}

async fn refused(server: &Server, access: HttpAccess) -> TransferError {
    let quick = Options {
        retries: 0,
        ..options()
    };
    let error = probe(&http_with(&server.url("/image"), access), &quick)
        .await
        .unwrap_err();
    assert_eq!((error.side(), error.is_retryable()), (Side::Source, false));
    assert!(server.seen().is_empty(), "nothing was asked");
    error
}

#[tokio::test]
async fn a_server_is_believed_by_its_own_authority() {
    let bytes = disk(40, 8 << 20);
    let content = bytes.clone();
    let (pem, tls) = authority(&["127.0.0.1"], false);
    let server = Server::start_tls(tls, move |request| Reply::tagged(request, &content)).await;
    let target = tempfile::tempdir().unwrap();
    let source = http_with(&server.url("/image"), trusting(&pem));
    run(source, file(target.path()), &options()).await.unwrap();
    let found = std::fs::read(target.path().join("disk.img")).unwrap();
    assert_same(&found, &bytes, "over TLS");
}

#[tokio::test]
async fn a_certificate_that_is_not_accepted_says_what_to_do() {
    let (pem, tls) = authority(&["127.0.0.1"], false);
    let (other, _) = authority(&["127.0.0.1"], false);
    let server = Server::start_tls(tls, |request| Reply::of(request, &[7; 512])).await;
    for access in [HttpAccess::default(), trusting(&other)] {
        let error = refused(&server, access).await;
        assert_eq!(error.reason(), "CertificateInvalid");
        let message = error.message();
        assert!(
            message.contains("give its certificate authority"),
            "{message}"
        );
    }
    assert!(
        probe(
            &http_with(&server.url("/image"), trusting(&pem)),
            &options()
        )
        .await
        .is_ok()
    );

    for (names, expired, words) in [
        (&["elsewhere.example"], false, "another name"),
        (&["127.0.0.1"], true, "expired"),
    ] {
        let (pem, tls) = authority(names, expired);
        let server = Server::start_tls(tls, |request| Reply::of(request, &[7; 512])).await;
        let error = refused(&server, trusting(&pem)).await;
        assert_eq!(error.reason(), "CertificateInvalid");
        assert!(error.message().contains(words), "{}", error.message());
    }
}

#[tokio::test]
async fn authorities_that_are_none_are_named_before_any_request() {
    let server = Server::start(|request| Reply::of(request, &[7; 512])).await;
    for pem in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAA"] {
        let error = refused(&server, trusting(pem)).await;
        assert_eq!(error.reason(), "InvalidAuthorities", "{}", error.message());
    }
}

#[tokio::test]
async fn encryption_is_given_up_only_where_nothing_depends_on_it() {
    let bytes = disk(41, 1 << 20);
    let content = bytes.clone();
    let plain = Server::start(move |request| Reply::tagged(request, &content)).await;
    let to = plain.url("/image");
    let (pem, tls) = authority(&["127.0.0.1"], false);
    let secure = Server::start_tls(tls, move |_| Reply::status(302).header("Location", &to)).await;
    let source = http_with(&secure.url("/image"), trusting(&pem));
    let error = probe(&source, &options()).await.unwrap_err();
    assert_eq!(
        (error.reason(), error.is_retryable()),
        ("InsecureRedirect", false)
    );
    assert!(plain.seen().is_empty());

    // The other way is always open.
    let (pem, tls) = authority(&["127.0.0.1"], false);
    let secure = Server::start_tls(tls, move |request| Reply::tagged(request, &bytes)).await;
    let to = secure.url("/image");
    let plain = Server::start(move |_| Reply::status(302).header("Location", &to)).await;
    let source = http_with(&plain.url("/image"), trusting(&pem));
    assert!(probe(&source, &options()).await.is_ok());
    assert!(
        probe(&http(&plain.url("/image")), &options())
            .await
            .is_err()
    );
}
