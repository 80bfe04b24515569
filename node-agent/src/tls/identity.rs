//! The agent's certificate and the CA, read from files and read again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::COORDINATOR;
use super::coordinator_only::CoordinatorOnly;

/// The three files as they were read together.
#[derive(Clone, PartialEq, Eq)]
struct Contents {
    ca: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// What a server needs to be itself and to know its client.
#[derive(Clone)]
pub struct Identity {
    contents: Contents,
    config: Arc<ServerConfig>,
}

/// Where an identity is read from.
#[derive(Debug, Clone)]
pub struct IdentityFiles {
    directory: PathBuf,
}

/// Why files are no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A file is not PEM, or has none of what it should hold.
    #[error("{file} holds no usable PEM")]
    Pem {
        /// Name of the file.
        file: &'static str,
        /// What is wrong.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The certificate authority cannot be used.
    #[error("ca.crt cannot be used to verify clients")]
    Ca(#[source] VerifierBuilderError),
    /// Certificate and key cannot be used, or not together.
    #[error("tls.crt and tls.key cannot be used together")]
    Pair(#[source] rustls::Error),
    /// The CA's certificate is malformed.
    #[error("ca.crt holds a malformed certificate")]
    Root(#[source] rustls::Error),
    /// The name that clients must have is none.
    #[error("the coordinator's name is no DNS name")]
    Name,
}

impl IdentityFiles {
    /// The files in `directory`.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// Reads the files; `Ok(None)` when they are those of `last`.
    pub fn read_if_changed(
        &self,
        last: Option<&Identity>,
    ) -> Result<Option<Identity>, IdentityError> {
        let contents = Contents {
            ca: read(&self.directory.join("ca.crt"))?,
            certificate: read(&self.directory.join("tls.crt"))?,
            key: read(&self.directory.join("tls.key"))?,
        };
        if last.is_some_and(|last| last.contents == contents) {
            return Ok(None);
        }
        let config = Arc::new(contents.server_config()?);
        Ok(Some(Identity { contents, config }))
    }
}

impl Identity {
    /// Configuration of a server that only the coordinator can talk to.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

impl Contents {
    fn server_config(&self) -> Result<ServerConfig, IdentityError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for root in certificates("ca.crt", &self.ca)? {
            roots.add(root).map_err(IdentityError::Root)?;
        }
        let chain = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(IdentityError::Ca)?;
        let name = ServerName::try_from(COORDINATOR).map_err(|_| IdentityError::Name)?;
        let key =
            PrivateKeyDer::from_pem_slice(&self.key).map_err(|source| IdentityError::Pem {
                file: "tls.key",
                source,
            })?;
        let certificates = certificates("tls.crt", &self.certificate)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(IdentityError::Pair)?
            .with_client_cert_verifier(Arc::new(CoordinatorOnly::new(chain, name)))
            .with_single_cert(certificates, key)
            .map_err(IdentityError::Pair)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would outlive the certificate that opened it.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, IdentityError> {
    std::fs::read(path).map_err(|source| IdentityError::Read {
        path: path.to_owned(),
        source,
    })
}

fn certificates(
    file: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|source| IdentityError::Pem { file, source })
}
