//! The cluster's own certificate authority, its certificates and the
//! kubeconfig files that carry them.

use crate::settings::{API_PORT, HOST_ADDRESS, Node, SERVICE_ADDRESS, Settings};
use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The authority's certificate.
pub fn authority_file(settings: &Settings) -> PathBuf {
    settings.certificates().join("ca.crt")
}

/// The certificate of a name.
pub fn certificate_file(settings: &Settings, name: &str) -> PathBuf {
    settings.certificates().join(format!("{name}.crt"))
}

/// The private key of a name.
pub fn key_file(settings: &Settings, name: &str) -> PathBuf {
    settings.certificates().join(format!("{name}.key"))
}

/// Makes every certificate and kubeconfig, unless they are there already.
pub fn make(settings: &Settings, nodes: &[Node]) -> Result<()> {
    let complete = settings.certificates().join("complete");
    if complete.exists() {
        return Ok(());
    }
    fs::create_dir_all(settings.certificates())?;
    if let Some(directory) = settings.kubeconfig().parent() {
        fs::create_dir_all(directory)?;
    }
    let authority = Authority::new()?;
    fs::write(authority_file(settings), &authority.certificate)?;
    write_secret(&key_file(settings, "ca"), &authority.key)?;

    let accounts = KeyPair::generate()?;
    write_secret(
        &key_file(settings, "service-accounts"),
        &accounts.serialize_pem(),
    )?;
    fs::write(
        settings.certificates().join("service-accounts.pub"),
        accounts.public_key_pem(),
    )?;

    let api_names = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
        "127.0.0.1",
        HOST_ADDRESS,
        SERVICE_ADDRESS,
    ];
    authority.issue(
        settings,
        "kube-apiserver",
        "kube-apiserver",
        None,
        &api_names,
    )?;
    let masters = Some("system:masters");
    authority.issue(settings, "kubelet-client", "kube-apiserver", masters, &[])?;
    let components = [
        ("admin", "kubernetes-admin".to_owned(), masters),
        (
            "kube-controller-manager",
            "system:kube-controller-manager".to_owned(),
            None,
        ),
        ("kube-scheduler", "system:kube-scheduler".to_owned(), None),
        ("kube-proxy", "system:kube-proxy".to_owned(), None),
    ];
    for (name, user, group) in &components {
        authority.client(settings, name, user, *group)?;
    }
    for node in nodes {
        let user = format!("system:node:{}", node.name);
        authority.client(settings, &node.name, &user, Some("system:nodes"))?;
        authority.issue(
            settings,
            &node.process("serving"),
            &user,
            Some("system:nodes"),
            &[&node.name, &node.address],
        )?;
    }
    fs::write(complete, "")?;
    Ok(())
}

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Result<Self> {
        let key_pair = KeyPair::generate()?;
        let key = key_pair.serialize_pem();
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters
            .distinguished_name
            .push(DnType::CommonName, "test cluster");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let certificate = parameters.self_signed(&key_pair)?.pem();
        Ok(Self {
            issuer: Issuer::new(parameters, key_pair),
            certificate,
            key,
        })
    }

    /// A certificate for both ends of a connection, and its key, as PEM.
    fn certify(&self, user: &str, group: Option<&str>, names: &[&str]) -> Result<(String, String)> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut parameters = CertificateParams::new(names)?;
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            parameters
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters
            .signed_by(&key, &self.issuer)
            .with_context(|| format!("sign the certificate of {user}"))?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    fn issue(
        &self,
        settings: &Settings,
        name: &str,
        user: &str,
        group: Option<&str>,
        names: &[&str],
    ) -> Result<()> {
        let (certificate, key) = self.certify(user, group, names)?;
        fs::write(certificate_file(settings, name), certificate)?;
        write_secret(&key_file(settings, name), &key)
    }

    fn client(
        &self,
        settings: &Settings,
        name: &str,
        user: &str,
        group: Option<&str>,
    ) -> Result<()> {
        let (certificate, key) = self.certify(user, group, &[])?;
        let config = kubeconfig(&self.certificate, &certificate, &key);
        write_secret(&settings.credentials(name), &config)
    }
}

/// A kubeconfig that carries its credentials within itself.
fn kubeconfig(authority: &str, certificate: &str, key: &str) -> String {
    let encode = |text: &str| base64(text.as_bytes());
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test-cluster",
        "clusters": [{"name": "test-cluster", "cluster": {
            "server": format!("https://{HOST_ADDRESS}:{API_PORT}"),
            "certificate-authority-data": encode(authority),
        }}],
        "users": [{"name": "user", "user": {
            "client-certificate-data": encode(certificate),
            "client-key-data": encode(key),
        }}],
        "contexts": [{"name": "test-cluster", "context": {
            "cluster": "test-cluster",
            "user": "user",
        }}],
    });
    format!("{config:#}\n")
}

fn write_secret(path: &Path, text: &str) -> Result<()> {
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("open {}", path.display()))?;
    file.write_all(text.as_bytes())?;
    Ok(())
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for position in 0..4 {
            let index = (bits >> (18 - 6 * position)) & 63;
            let letter = if position <= chunk.len() {
                LETTERS[index as usize]
            } else {
                b'='
            };
            text.push(char::from(letter));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn base64_pads_as_the_standard_says() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
        assert_eq!(base64(&[0xff, 0xff, 0xfe]), "///+");
    }

    #[test]
    fn everything_is_made_once_and_keys_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            root: directory.path().into(),
            cache: directory.path().into(),
            sources: directory.path().into(),
        };
        let nodes = Node::list(&settings.root, 1).unwrap();
        make(&settings, &nodes).unwrap();
        let first = fs::read_to_string(settings.kubeconfig()).unwrap();
        make(&settings, &nodes).unwrap();
        assert_eq!(fs::read_to_string(settings.kubeconfig()).unwrap(), first);
        for secret in [settings.kubeconfig(), key_file(&settings, "ca")] {
            assert_eq!(fs::metadata(secret).unwrap().permissions().mode() & 0o77, 0);
        }
        assert!(certificate_file(&settings, "node-a-serving").exists());
    }
}
