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
    /// The words that name the same cluster to a shell, each with a space
    /// before it.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        if let Some(context) = &self.context {
            words += &format!(" --context {}", quoted(context));
        }
        if let Some(path) = &self.kubeconfig {
            words += &format!(" --kubeconfig {}", quoted(&path.display().to_string()));
        }
        words
    }

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

/// A word as a shell reads it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=+,%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_what_was_meant() {
        assert_eq!(quoted("/dev/disk/by-id/wwn-0x5"), "/dev/disk/by-id/wwn-0x5");
        assert_eq!(quoted("a b;c"), "'a b;c'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
        let arguments = ContextArguments {
            context: Some("my cluster".into()),
            kubeconfig: Some("/k".into()),
        };
        let words = " --context 'my cluster' --kubeconfig /k";
        assert_eq!(arguments.words(), words);
    }
}
