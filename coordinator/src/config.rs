//! What the operator sets, as flags or environment variables.

use std::net::SocketAddr;

use clap::{ArgAction, Args, Parser, ValueEnum};

use crate::access::{DefaultStore, SystemClaim};
use crate::image::size::Overhead;

/// Reconciles HyperCloud Storage's custom resources.
#[derive(Clone, Debug, Parser)]
#[command(name = "coordinator", version)]
pub struct Config {
    /// Namespace of the coordinator, the agents and their Secrets.
    #[arg(long, env = "POD_NAMESPACE")]
    pub namespace: String,

    /// Name by which this process is known in the Lease and in Events.
    #[arg(long, env = "POD_NAME")]
    pub identity: String,

    /// Container image with the `hold` command.
    #[arg(long, env = "HOLDER_IMAGE")]
    pub holder_image: String,

    /// Share of a file system that is not there for the disk.
    #[arg(long, env = "FILESYSTEM_OVERHEAD", default_value = "0.055", value_parser = overhead)]
    pub filesystem_overhead: Overhead,

    /// The object store of images and exports that name no endpoint.
    #[command(flatten)]
    pub object_store: ObjectStoreConfig,

    /// Whether HyperCloudStorage is carried out. That takes wide rights, of a
    /// file of their own (coordinator-storage-rbac.yaml).
    #[arg(long, env = "STORAGE", default_value_t = true, action = ArgAction::Set)]
    pub storage: bool,

    /// Port of the agents.
    #[arg(long, env = "AGENT_PORT", default_value_t = 7443)]
    pub agent_port: u16,

    /// Address of the health and metrics endpoints.
    #[arg(long, env = "HEALTH_ADDRESS", default_value = "[::]:8080")]
    pub health_address: SocketAddr,

    /// Address at which the API server has what is applied judged, over TLS.
    #[arg(long, env = "ADMISSION_ADDRESS", default_value = "[::]:9443")]
    pub admission_address: SocketAddr,

    /// How the log is written.
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value_t = LogFormat::Json)]
    pub log_format: LogFormat,
}

/// The object store of images and exports that name no endpoint.
#[derive(Clone, Debug, Default, Args)]
pub struct ObjectStoreConfig {
    /// Its http:// or https:// address; Amazon's for the region by default.
    /// Where neither it, nor the region, nor the Secret is set, the store is
    /// the one that HyperCloudStorage installed, once there is one.
    #[arg(long = "object-store-endpoint", env = "OBJECT_STORE_ENDPOINT", value_parser = endpoint)]
    pub endpoint: Option<String>,

    /// Region that requests to it are signed for.
    #[arg(long = "object-store-region", env = "OBJECT_STORE_REGION")]
    pub region: Option<String>,

    /// Whether buckets stand in the path; by default where an endpoint is set.
    #[arg(long = "object-store-path-style", env = "OBJECT_STORE_PATH_STYLE")]
    pub path_style: Option<bool>,

    /// Secret in the coordinator's namespace that lets in. Whoever may make an
    /// image can read what it lets at, and whoever may make an export can write
    /// there.
    #[arg(long = "object-store-secret", env = "OBJECT_STORE_SECRET")]
    pub secret: Option<String>,

    /// ConfigMap in the coordinator's namespace with certificates to trust.
    #[arg(
        long = "object-store-ca-config-map",
        env = "OBJECT_STORE_CA_CONFIG_MAP"
    )]
    pub ca_config_map: Option<String>,
}

impl Config {
    /// The store, with the namespace of what it is reached by. Where the
    /// operator names none, it is the bucket that `HyperCloudStorage` claims.
    pub fn default_store(&self) -> DefaultStore {
        let ObjectStoreConfig {
            endpoint,
            region,
            path_style,
            secret,
            ca_config_map,
        } = self.object_store.clone();
        let is_named = endpoint.is_some() || region.is_some() || secret.is_some();
        let claim = SystemClaim {
            namespace: hypercloud_storage::SYSTEM_NAMESPACE.to_owned(),
            name: hypercloud_storage::OBJECT_STORE.to_owned(),
        };
        DefaultStore {
            namespace: self.namespace.clone(),
            endpoint,
            region,
            path_style,
            secret,
            ca_config_map,
            claim: Some(claim).filter(|_| !is_named),
        }
    }
}

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

fn overhead(text: &str) -> Result<Overhead, String> {
    text.parse()
        .ok()
        .and_then(Overhead::from_fraction)
        .ok_or_else(|| "not a fraction of at least 0 and below 0.5".to_owned())
}

fn endpoint(text: &str) -> Result<String, String> {
    match url::Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(text.to_owned()),
        Ok(url) => Err(format!("{} is neither http nor https", url.scheme())),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read() {
        let base = [
            "coordinator",
            "--namespace=n",
            "--identity=i",
            "--holder-image=h",
        ];
        let config = Config::try_parse_from(base).unwrap();
        assert_eq!(config.filesystem_overhead, Overhead::DEFAULT);
        assert_eq!(config.agent_port, 7443);
        assert!(config.storage);
        let store = DefaultStore {
            namespace: "n".into(),
            claim: Some(SystemClaim {
                namespace: "hypercloud-storage".into(),
                name: "hypercloud-objects".into(),
            }),
            ..DefaultStore::default()
        };
        assert_eq!(config.default_store(), store);
        let amazon = base.into_iter().chain(["--object-store-region=there"]);
        let amazon = Config::try_parse_from(amazon).unwrap().default_store();
        assert_eq!(amazon.claim, None);
        let store = [
            "--object-store-endpoint=http://s3.example",
            "--object-store-path-style=false",
            "--object-store-secret=s",
            "--storage=false",
        ];
        let config = Config::try_parse_from(base.into_iter().chain(store)).unwrap();
        assert!(!config.storage);
        let store = config.default_store();
        assert_eq!(store.endpoint.as_deref(), Some("http://s3.example"));
        assert_eq!(store.path_style, Some(false));
        assert_eq!(store.claim, None);
        let bad = base
            .into_iter()
            .chain(["--object-store-endpoint=s3.example"]);
        assert!(Config::try_parse_from(bad).is_err());
        let bad = base.into_iter().chain(["--filesystem-overhead=0.7"]);
        assert!(Config::try_parse_from(bad).is_err());
    }
}
