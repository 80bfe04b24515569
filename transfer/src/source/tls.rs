//! Whom to trust.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::error::{InvalidAuthorities, SourceError};

/// Trusts the system's authorities, or Mozilla's where the system has none, as
/// in a container without them; and those that are given, as PEM.
pub(super) fn configuration(given: Option<&str>) -> Result<ClientConfig, SourceError> {
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
        .map_err(|error| SourceError::Client(error.into()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Adds every certificate of a PEM text, which must hold one and nothing
/// broken.
fn add(roots: &mut RootCertStore, pem: &str) -> Result<(), SourceError> {
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

/// What to do about a certificate that is not accepted.
pub(super) fn advice(error: &rustls::CertificateError) -> &'static str {
    use rustls::CertificateError as Why;
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
            let error = added(wrong).unwrap_err();
            assert!(
                matches!(error, SourceError::InvalidAuthorities(_)),
                "{wrong}: {error}"
            );
        }
    }
}
