//! The key by which `ceph` is let in. There is no Ceph: what is asked is the
//! API server, so the key is the operator's token for it, in the place where
//! Rook keeps Ceph's. A pod that has it needs no account of its own.

use anyhow::Context;
use kube::config::AuthInfo;
use kube::{Client, Config};

const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The token of this pod's account; a word where it has none.
#[must_use]
pub fn own() -> String {
    std::fs::read_to_string(TOKEN).unwrap_or_else(|_| "simulated".to_owned())
}

/// A client by the pod's account, or by the key that the environment names.
///
/// # Errors
/// Neither.
pub async fn client() -> anyhow::Result<Client> {
    let Some(file) = named(&std::env::var("CEPH_ARGS").unwrap_or_default()) else {
        return Client::try_default().await.context("no cluster");
    };
    let key = std::fs::read_to_string(&file).with_context(|| file.clone())?;
    let host = std::env::var("KUBERNETES_SERVICE_HOST").context("no cluster")?;
    let port = std::env::var("KUBERNETES_SERVICE_PORT").context("no cluster")?;
    let mut config = Config::new(format!("https://{host}:{port}").parse()?);
    // The authority's certificate comes with an account only.
    config.accept_invalid_certs = true;
    config.auth_info = AuthInfo {
        token: Some(key.into()),
        ..AuthInfo::default()
    };
    Ok(Client::try_from(config)?)
}

/// The file of the key, as options of `ceph` name it.
fn named(options: &str) -> Option<String> {
    let mut words = options.split_whitespace();
    words.find_map(|word| word.strip_prefix("--keyfile=").map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_found_among_options() {
        let options = "--mon-host=[v1:10.0.0.1:6789] --keyfile=/keys/ceph-secret";
        assert_eq!(named(options).as_deref(), Some("/keys/ceph-secret"));
        assert_eq!(named("--mon-host=x"), None);
    }
}
