//! The cluster that is meant.

use std::path::PathBuf;

use clap::Args;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::{Client, Config, Resource};

use super::failure::Failure;
use super::follow::Followed;

/// Which cluster, and where in it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArguments {
    /// Namespace of the disk; the context's where none is given
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    context: ContextArguments,
}

/// Which cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ContextArguments {
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
    pub(crate) async fn connect<K>(self) -> Result<Api<K>, Failure>
    where
        K: Followed + Resource<Scope = NamespaceResourceScope>,
    {
        let config = self.context.config().await?;
        let default = config.default_namespace.clone();
        let namespace = self.namespace.unwrap_or(default);
        let client = Client::try_from(config).map_err(|error| Failure::Cluster(error.into()))?;
        Ok(Api::namespaced(client, &namespace))
    }
}

impl ContextArguments {
    /// A client of the cluster.
    ///
    /// # Errors
    /// [`Failure::Cluster`] where nothing says how the cluster is reached.
    pub(crate) async fn client(self) -> Result<Client, Failure> {
        let config = self.config().await?;
        Client::try_from(config).map_err(|error| Failure::Cluster(error.into()))
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
