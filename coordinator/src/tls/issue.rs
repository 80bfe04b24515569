//! Certificates: made, and judged (no client, no clock).
//!
//! Keys are ECDSA on P-256. An authority may sign end entities only; an end
//! entity is good for one of server and client, never for both.

use k8s_openapi::jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use time::OffsetDateTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// Life of an authority.
const AUTHORITY_LIFE: i64 = 3650 * DAY;
/// Life of an end entity's certificate.
const LEAF_LIFE: i64 = 90 * DAY;
/// How far into the past certificates reach, for clocks that differ.
const SKEW: i64 = HOUR;

/// A certificate with its key; PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyedCertificate {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// What an end entity is for, and the name it speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// Answers calls.
    Server(&'a str),
    /// Makes calls.
    Client(&'a str),
}

/// Why no certificate was made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The certificate could not be made or signed.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The time is out of the range that certificates can say.
    #[error("the clock shows a time that no certificate can say")]
    Clock,
}

/// A new authority.
pub fn authority(now: Timestamp) -> Result<KeyedCertificate, IssueError> {
    let key = KeyPair::generate()?;
    let mut params = valid(CertificateParams::new(Vec::new())?, now, AUTHORITY_LIFE)?;
    params.distinguished_name = named(&format!("hypercloud-storage {}", now.as_second()));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key)?;
    Ok(KeyedCertificate {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

/// A certificate for `purpose`, signed by `authority`.
pub fn leaf(
    authority: &KeyedCertificate,
    purpose: Purpose<'_>,
    now: Timestamp,
) -> Result<KeyedCertificate, IssueError> {
    let issuer_key = KeyPair::from_pem(&authority.key)?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, issuer_key)?;
    let (name, usage) = match purpose {
        Purpose::Server(name) => (name, ExtendedKeyUsagePurpose::ServerAuth),
        Purpose::Client(name) => (name, ExtendedKeyUsagePurpose::ClientAuth),
    };
    let key = KeyPair::generate()?;
    let mut params = valid(
        CertificateParams::new(vec![name.to_owned()])?,
        now,
        LEAF_LIFE,
    )?;
    params.distinguished_name = named(name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(KeyedCertificate {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn valid(
    mut params: CertificateParams,
    now: Timestamp,
    life: i64,
) -> Result<CertificateParams, IssueError> {
    let at = |second| OffsetDateTime::from_unix_timestamp(second).map_err(|_| IssueError::Clock);
    params.not_before = at(now.as_second() - SKEW)?;
    params.not_after = at(now.as_second() + life)?;
    Ok(params)
}

/// Whether more than a third of the certificate's life is left.
pub fn is_fresh(certificate: &str, now: Timestamp) -> bool {
    with_x509(certificate, |x509| {
        let validity = x509.validity();
        let (begin, end) = (
            validity.not_before.timestamp(),
            validity.not_after.timestamp(),
        );
        let left = end - now.as_second();
        begin <= now.as_second() && left * 3 > end - begin
    })
}

/// Whether the certificate is signed by `authority`.
pub fn is_signed_by(certificate: &str, authority: &str) -> bool {
    with_x509(authority, |authority| {
        with_x509(certificate, |x509| {
            x509.issuer() == authority.subject()
                && x509.verify_signature(Some(authority.public_key())).is_ok()
        })
    })
}

/// What `judge` says of the first certificate in `pem`; `false` where there
/// is none that can be read.
fn with_x509(pem: &str, judge: impl FnOnce(&X509Certificate<'_>) -> bool) -> bool {
    let first = Pem::iter_from_buffer(pem.as_bytes()).next();
    let Some(Ok(pem)) = first else {
        return false;
    };
    pem.parse_x509().is_ok_and(|x509| judge(&x509))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_leaf_is_its_authoritys() {
        let (ours, other) = (authority(at(0)).unwrap(), authority(at(0)).unwrap());
        let leaf = leaf(&ours, Purpose::Server("node-agent.example"), at(0)).unwrap();
        assert!(is_signed_by(&leaf.certificate, &ours.certificate));
        assert!(!is_signed_by(&leaf.certificate, &other.certificate));
        assert!(!is_signed_by("no certificate", &ours.certificate));
    }

    #[test]
    fn the_last_third_of_a_life_is_not_fresh() {
        let ours = authority(at(0)).unwrap();
        let leaf = leaf(&ours, Purpose::Client("coordinator.example"), at(0)).unwrap();
        assert!(is_fresh(&leaf.certificate, at(0)));
        assert!(is_fresh(&leaf.certificate, at(59 * DAY)));
        assert!(!is_fresh(&leaf.certificate, at(61 * DAY)));
        assert!(!is_fresh(&leaf.certificate, at(-2 * HOUR)));
        assert!(is_fresh(&ours.certificate, at(2000 * DAY)));
        assert!(!is_fresh("no certificate", at(0)));
    }

    #[test]
    fn a_leaf_serves_one_purpose() {
        let ours = authority(at(0)).unwrap();
        let leaf = leaf(&ours, Purpose::Server("node-agent.example"), at(0)).unwrap();
        assert!(with_x509(&leaf.certificate, |x509| {
            let usage = x509.extended_key_usage().unwrap().unwrap().value;
            usage.server_auth && !usage.client_auth && !usage.any && !x509.is_ca()
        }));
    }
}
