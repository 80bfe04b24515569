//! A certificate authority for one test.

use std::path::Path;

use node_agent::tls::{COORDINATOR, NODE_AGENT};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// A CA that signs for the names that it is told.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    pub fn sign(&self, name: &str) -> Pair {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair {
            certificate,
            key: key.serialize_pem(),
        }
    }

    /// Writes what an agent's Secret holds.
    pub fn equip_agent(&self, directory: &Path) {
        let Pair { certificate, key } = self.sign(NODE_AGENT);
        for (name, text) in [
            ("ca.crt", &self.pem),
            ("tls.crt", &certificate),
            ("tls.key", &key),
        ] {
            std::fs::write(directory.join(name), text).unwrap();
        }
    }

    /// A client that trusts this CA, with a certificate for `name` from it.
    pub fn client(&self, port: u16, name: &str) -> Channel {
        self.client_with(port, Some(self.sign(name)))
    }

    /// A client that trusts this CA and shows `pair`.
    pub fn client_with(&self, port: u16, pair: Option<Pair>) -> Channel {
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.pem))
            .domain_name(NODE_AGENT);
        if let Some(Pair { certificate, key }) = pair {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        let address = format!("https://127.0.0.1:{port}");
        Endpoint::from_shared(address)
            .unwrap()
            .tls_config(tls)
            .unwrap()
            .connect_lazy()
    }

    /// The coordinator as it should be.
    pub fn coordinator(&self, port: u16) -> Channel {
        self.client(port, COORDINATOR)
    }
}
