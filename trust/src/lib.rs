//! Which web servers are believed: those whose certificate an authority of the
//! system has signed, or one that was given.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};

/// Why nobody can be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// What was given is no certificate, or not only.
    #[error(transparent)]
    Authorities(#[from] InvalidAuthorities),
    /// TLS itself cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
}

/// Why authorities cannot be trusted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAuthorities {
    /// No certificate stands in the text.
    #[error("there is no certificate in PEM form: give at least one")]
    Empty,
    /// The text around the certificate of this number is broken.
    #[error("certificate {0} is broken PEM: {1}")]
    Pem(usize, rustls::pki_types::pem::Error),
    /// The certificate of this number is none.
    #[error("certificate {0} is none: {1}")]
    Certificate(usize, rustls::Error),
}

/// Trusts the system's authorities, or Mozilla's where the system has none, as
/// in a container without them; and those that are given, as PEM.
///
/// # Errors
/// Where no certificate stands in what is given, or something that is none.
pub fn configuration(given: Option<&str>) -> Result<ClientConfig, TrustError> {
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
        .map_err(TrustError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Adds every certificate of a PEM text, which must hold one and nothing
/// broken.
fn add(roots: &mut RootCertStore, pem: &str) -> Result<(), InvalidAuthorities> {
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
        return Err(InvalidAuthorities::Empty);
    }
    Ok(())
}

/// What to do about a server's certificate that is not accepted; "it" is the
/// certificate.
#[must_use]
pub fn advice(error: &CertificateError) -> &'static str {
    use CertificateError as Why;
    match error {
        Why::Expired | Why::ExpiredContext { .. } => "it has expired, the server needs a new one",
        Why::NotValidYet | Why::NotValidYetContext { .. } => {
            "it is not valid yet, a clock may be wrong"
        }
        Why::NotValidForName | Why::NotValidForNameContext { .. } => {
            "it is made out to another name, use one that stands in it"
        }
        Why::UnknownIssuer | Why::BadSignature => {
            "nobody who is trusted has signed it, give its certificate authority"
        }
        _ => "if nobody who is trusted has signed it, give its certificate authority",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_certificates_and_all_of_them() {
        let added = |pem: &str| {
            let mut roots = RootCertStore::empty();
            add(&mut roots, pem).map(|()| roots.len())
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
            assert!(added(wrong).is_err(), "{wrong}");
            assert!(configuration(Some(wrong)).is_err(), "{wrong}");
        }
        assert!(configuration(Some(&one())).is_ok());
        assert!(configuration(None).is_ok());
    }
}
