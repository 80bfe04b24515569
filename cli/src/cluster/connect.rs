//! The cluster that is meant.

use std::path::PathBuf;

use clap::Args;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::failure::Failure;
use super::follow::Followed;

/// Which cluster, and where in it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArguments {
    /// Namespace of the disk; the context's where none is given
    #[arg(short, long)]
    namespace: Option<String>,
    /// Context of the kubeconfig; its current one where none is given
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The kubeconfig; KUBECONFIG's or ~/.kube/config where none is given
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl ClusterArguments {
    /// The resources of a kind in the namespace that is meant.
    ///
    /// # Errors
    /// [`Failure::Cluster`] where nothing says how the cluster is reached.
    pub(crate) async fn connect<K: Followed>(self) -> Result<Api<K>, Failure> {
        let namespace = self.namespace.clone();
        let config = self.config().await?;
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| Failure::Cluster(error.into()))?;
        Ok(Api::namespaced(client, &namespace))
    }

    async fn config(self) -> Result<Config, Failure> {
        let options = KubeConfigOptions {
            context: self.context,
            ..KubeConfigOptions::default()
        };
        let config = match self.kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path);
                let file = file.map_err(|error| Failure::Cluster(error.into()))?;
                Config::from_custom_kubeconfig(file, &options).await
            }
            None if options.context.is_some() => Config::from_kubeconfig(&options).await,
            // In a pod there is no kubeconfig.
            None => {
                return Config::infer()
                    .await
                    .map_err(|error| Failure::Cluster(error.into()));
            }
        };
        config.map_err(|error| Failure::Cluster(error.into()))
    }
}
