//! Why a rollback was not seen to its good end.

use std::error::Error as _;
use std::time::Duration;

use kube::Error as KubeError;

use super::course::Said;

/// Why a rollback was not seen to its good end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Nothing says how the cluster is reached.
    #[error(
        "the cluster cannot be reached with this kubeconfig: {0}; see --kubeconfig and --context"
    )]
    Cluster(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The API server does not take the rollback.
    #[error("the cluster does not take the rollback: {message}")]
    NotTaken {
        /// The server's words.
        message: String,
    },
    /// The API server knows no rollbacks.
    #[error(
        "the cluster has no VirtualMachineVolumeRollback: install HyperCloud Storage there, or name another context"
    )]
    NotInstalled,
    /// The API server could not be asked.
    #[error("the cluster could not be asked to make the rollback: {}", words(.0))]
    NotAsked(#[source] KubeError),
    /// It cannot be done, and nothing was written.
    #[error("{}", .0.message)]
    Refused(Said),
    /// It was tried, and failed.
    #[error("{}", .0.message)]
    Failed(Said),
    /// It is not there any more.
    #[error(
        "the rollback {name} in namespace {namespace} was deleted before it was done: the disk is as it was, or was put back wholly, if writing had begun"
    )]
    Vanished {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// It cannot be seen any more.
    #[error(
        "the rollback cannot be followed any more: {}; {}",
        words(source),
        going_on(namespace, name)
    )]
    Unseen {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why not.
        source: KubeError,
    },
    /// It was not done in time.
    #[error(
        "the rollback was not done within {timeout:?}; {}",
        going_on(namespace, name)
    )]
    Timeout {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// How long was waited.
        timeout: Duration,
    },
    /// The user does not want to wait.
    #[error("stopped waiting; {}", going_on(namespace, name))]
    Stopped {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// What holds of a rollback that is not waited for.
fn going_on(namespace: &str, name: &str) -> String {
    format!(
        "it goes on in the cluster: kubectl get --namespace {namespace} virtualmachinevolumerollback {name} --watch"
    )
}

/// What the API server says, or the way to it, with its causes.
fn words(error: &KubeError) -> String {
    if let KubeError::Api(status) = error {
        return status.message.clone();
    }
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some layers repeat what is beneath them.
        if !words.ends_with(&said) {
            words = format!("{words}: {said}");
        }
        cause = error.source();
    }
    words
}

impl Failure {
    /// Why the API server made no rollback.
    pub(super) fn create(error: KubeError) -> Self {
        match error {
            KubeError::Api(status) if status.is_not_found() && !names_object(&status.message) => {
                Self::NotInstalled
            }
            // These are no judgement on the rollback.
            KubeError::Api(status) if !(400..500).contains(&status.code) || status.code == 429 => {
                Self::NotAsked(KubeError::Api(status))
            }
            KubeError::Api(status) => Self::NotTaken {
                message: status.message.clone(),
            },
            error => Self::NotAsked(error),
        }
    }

    /// The exit code, which is part of the interface.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Stopped { .. } => 1,
            Self::Cluster(_) => 2,
            Self::NotTaken { .. } | Self::NotInstalled | Self::Refused(_) => 3,
            Self::NotAsked(_)
            | Self::Failed(_)
            | Self::Vanished { .. }
            | Self::Unseen { .. }
            | Self::Timeout { .. } => 4,
        }
    }

    /// The failure in one word.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Cluster(_) => "InvalidKubeconfig",
            Self::NotTaken { .. } => "NotTaken",
            Self::NotInstalled => "NotInstalled",
            Self::NotAsked(_) => "ClusterUnreachable",
            Self::Refused(said) | Self::Failed(said) => &said.reason,
            Self::Vanished { .. } => "Vanished",
            Self::Unseen { .. } => "Unseen",
            Self::Timeout { .. } => "Timeout",
            Self::Stopped { .. } => "Stopped",
        }
    }
}

/// Whether what is not found is an object, such as the namespace, rather than
/// the kind of resource.
fn names_object(message: &str) -> bool {
    message.contains('"')
}
