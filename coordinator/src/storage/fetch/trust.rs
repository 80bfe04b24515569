//! Whom web servers are believed.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Certificates of authorities from a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// The ConfigMap's name.
    pub config_map: String,
    /// The certificates, as PEM.
    pub pem: String,
}

/// Trusts the system's authorities, or Mozilla's where the system has none, as
/// in a container without them; and those that are given. What is wrong with
/// these is the error.
pub(super) fn configuration(given: Option<&str>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    if let Some(given) = given {
        add(&mut roots, given)?;
    }
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Adds every certificate of a PEM text, which must hold one and nothing
/// broken.
fn add(roots: &mut RootCertStore, pem: &str) -> Result<(), String> {
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let broken = || format!("has {count} certificates, and then one that is broken");
        let certificate = certificate.map_err(|_| broken())?;
        roots.add(certificate).map_err(|_| broken())?;
        count += 1;
    }
    if count == 0 {
        return Err("holds no certificate in PEM form".to_owned());
    }
    Ok(())
}

/// What is wrong with a server's certificate, in words.
pub(super) fn wrong(error: &rustls::CertificateError) -> String {
    use rustls::CertificateError as Why;
    match error {
        Why::Expired | Why::ExpiredContext { .. } => {
            "its certificate has expired, it needs a new one".to_owned()
        }
        Why::NotValidYet | Why::NotValidYetContext { .. } => {
            "its certificate is not valid yet, a clock may be wrong".to_owned()
        }
        Why::NotValidForName | Why::NotValidForNameContext { .. } => {
            "its certificate is made out to another name".to_owned()
        }
        Why::UnknownIssuer | Why::BadSignature => {
            "nobody who is trusted has signed its certificate".to_owned()
        }
        other => format!("its certificate is not accepted ({other})"),
    }
}
