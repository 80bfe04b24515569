//! The HTTP client, and what its errors mean.

use std::error::Error;

use reqwest::Client;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::Url;

use super::address::{PolicyResolver, Refused, Unresolved};
use crate::error::{InvalidAuthorities, SourceError};
use crate::options::Options;
use crate::request::HttpAccess;

/// A client that follows no redirect, decodes nothing, and connects only
/// where the policy allows.
///
/// HTTP/1.1 only: ranges travel over a connection each, so that they neither
/// share a congestion window nor wait for each other.
pub(super) fn new(access: &HttpAccess, options: &Options) -> Result<Client, SourceError> {
    Client::builder()
        .tls_backend_preconfigured(tls(access.authorities.as_deref())?)
        .dns_resolver(PolicyResolver(options.address_policy))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(options.connect_timeout)
        .pool_max_idle_per_host(options.connections)
        .http1_only()
        .no_proxy()
        .user_agent(concat!("hypercloud-storage/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| SourceError::Client(error.without_url().into()))
}

/// Trusts the system's authorities, or Mozilla's where the system has none, as
/// in a container without them; and those that are given.
fn tls(given: Option<&str>) -> Result<rustls::ClientConfig, SourceError> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if let Some(given) = given {
        add_authorities(&mut roots, given)?;
    }
    let provider = rustls::crypto::ring::default_provider();
    let config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| SourceError::Client(error.into()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Adds every certificate of a PEM text, which must hold one and nothing
/// broken.
fn add_authorities(roots: &mut rustls::RootCertStore, pem: &str) -> Result<(), SourceError> {
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let number = count + 1;
        let certificate = certificate.map_err(|error| InvalidAuthorities::Pem(number, error))?;
        roots
            .add(certificate)
            .map_err(|error| InvalidAuthorities::Certificate(number, error))?;
        count = number;
    }
    if count == 0 {
        return Err(InvalidAuthorities::Empty.into());
    }
    Ok(())
}

/// A URL as it may be shown: without the user part, query and fragment.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Neither fails for http URLs; where they would, there is nothing to hide.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

/// The first error of a kind in a chain, looking into I/O errors as well.
fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        let inner = error
            .downcast_ref::<std::io::Error>()
            .and_then(|error| error.get_ref());
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// What a client's error means.
pub(super) fn explain(url: &Url, error: reqwest::Error) -> SourceError {
    let location = shown(url);
    let source = error.without_url();
    if let Some(Refused(address)) = cause::<Refused>(&source) {
        return SourceError::AddressRefused {
            location,
            address: *address,
        };
    }
    if cause::<Unresolved>(&source).is_some() {
        return SourceError::NameNotResolved { location, source };
    }
    if let Some(rustls::Error::InvalidCertificate(_)) = cause::<rustls::Error>(&source) {
        return SourceError::CertificateInvalid { location, source };
    }
    if source.is_builder() {
        SourceError::Client(source.into())
    } else if source.is_connect() {
        SourceError::ConnectFailed { location, source }
    } else if source.is_timeout() {
        SourceError::Stalled(location)
    } else if source.is_body() || source.is_decode() || source.is_request() {
        SourceError::Interrupted { location, source }
    } else {
        SourceError::Request { location, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_certificates_and_all_of_them() {
        let added = |pem: &str| {
            let mut roots = rustls::RootCertStore::empty();
            add_authorities(&mut roots, pem).map(|()| roots.len())
        };
        let one = || {
            let key = rcgen::KeyPair::generate().unwrap();
            let params = rcgen::CertificateParams::new(["a.example".into()]).unwrap();
            params.self_signed(&key).unwrap().pem()
        };
        assert_eq!(added(&one()).unwrap(), 1);
        assert_eq!(added(&format!("{}text\n{}", one(), one())).unwrap(), 2);
        let cut = one().replace("-----END CERTIFICATE-----", "");
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let noise = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for wrong in ["", "\n", "some text", &cut, &key, noise, &(one() + noise)] {
            let error = added(wrong).unwrap_err();
            assert!(
                matches!(error, SourceError::InvalidAuthorities(_)),
                "{wrong}: {error}"
            );
        }
    }
}
