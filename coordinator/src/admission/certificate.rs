//! What a replica answers with.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::tls::issue::KeyedCertificate;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It, or its key, is no PEM.
    #[error("cannot be read: {0}")]
    Pem(rustls::pki_types::pem::Error),
    /// The key is of no known kind, or of another certificate.
    #[error(transparent)]
    Key(#[from] rustls::Error),
}

/// The certificate in use.
#[derive(Debug, Default)]
pub struct Certificate {
    current: RwLock<Option<Arc<CertifiedKey>>>,
}

impl Certificate {
    /// Answers with this one from now on.
    pub fn set(&self, kept: &KeyedCertificate) -> Result<(), Unusable> {
        let chain = CertificateDer::pem_slice_iter(kept.certificate.as_bytes());
        let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(Unusable::Pem)?;
        let key = PrivateKeyDer::from_pem_slice(kept.key.as_bytes()).map_err(Unusable::Pem)?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key)?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match()?;
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Some(Arc::new(certified));
        Ok(())
    }

    /// Whether there is one.
    pub fn is_set(&self) -> bool {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.is_some()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}
