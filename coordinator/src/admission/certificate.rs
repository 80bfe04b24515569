//! What a replica answers with: read from the Secret, and again as the leader
//! renews it (client required).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use kube::Client;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

use crate::tls;
use crate::tls::issue::KeyedCertificate;

/// How often the Secret is looked at.
const INTERVAL: Duration = Duration::from_secs(10);
/// How often while there is none.
const SOON: Duration = Duration::from_secs(1);

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
    looked: AtomicBool,
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

    /// Whether it was looked for, so that there is one if there was one.
    pub fn was_looked_for(&self) -> bool {
        self.looked.load(Relaxed)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }
}

/// Keeps `certificate` at what the Secret holds, until `stop`. One that went
/// away, or cannot be used, leaves the one before it in use.
pub async fn follow(
    client: Client,
    namespace: &str,
    certificate: Arc<Certificate>,
    stop: CancellationToken,
) {
    let mut last: Option<KeyedCertificate> = None;
    loop {
        match tls::read_admission(&client, namespace).await {
            Ok(found) => {
                if found.is_some() && found != last {
                    match found.as_ref().map(|kept| certificate.set(kept)) {
                        Some(Err(error)) => {
                            tracing::warn!(%error, "the webhook's certificate");
                        }
                        _ => tracing::info!("the webhook's certificate is in use"),
                    }
                    last = found;
                }
                certificate.looked.store(true, Relaxed);
            }
            Err(error) => tracing::warn!(%error, "reading the webhook's certificate"),
        }
        let pause = match certificate.is_set() {
            true => INTERVAL,
            false => SOON,
        };
        let pause = tokio::time::sleep(pause);
        if stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}
