//! Why work of the cluster was not seen to its good end.

use std::error::Error as _;
use std::time::Duration;

use kube::Error as KubeError;

use super::Work;
use super::course::Said;
use super::follow::Whose;

/// Why work was not seen to its good end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Nothing says how the cluster is reached.
    #[error(
        "the cluster cannot be reached with this kubeconfig: {0}; see --kubeconfig and --context"
    )]
    Cluster(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The API server does not take the resource.
    #[error("the cluster does not take the {}: {message}", work.word)]
    NotTaken {
        /// What was asked for.
        work: &'static Work,
        /// The server's words.
        message: String,
    },
    /// The API server knows no such resources.
    #[error(
        "the cluster has no {}: install HyperCloud Storage there, or name another context", .0.kind
    )]
    NotInstalled(&'static Work),
    /// The API server could not be asked.
    #[error("the cluster could not be asked to make the {}: {}", work.word, words(source))]
    NotAsked {
        /// What was asked for.
        work: &'static Work,
        /// Why not.
        source: KubeError,
    },
    /// The API server does not show what there is.
    #[error("the cluster does not show its {}: {message}", work.word)]
    NotShown {
        /// What was asked for.
        work: &'static Work,
        /// The server's words.
        message: String,
    },
    /// The API server could not be asked what there is.
    #[error("the cluster could not be asked for its {}: {}", work.word, words(source))]
    NotRead {
        /// What was asked for.
        work: &'static Work,
        /// Why not.
        source: KubeError,
    },
    /// It cannot be done.
    #[error("{}", .0.message)]
    Refused(Said),
    /// It was tried, and failed.
    #[error("{}", .0.message)]
    Failed(Said),
    /// It is not there any more.
    #[error(
        "the {} was deleted before it was done: {}", whose.named(), whose.work.vanished
    )]
    Vanished {
        /// What is not there any more.
        whose: Whose,
    },
    /// It cannot be seen any more.
    #[error(
        "the {} cannot be followed any more: {}; {}",
        whose.work.word,
        words(source),
        going_on(whose)
    )]
    Unseen {
        /// What cannot be seen.
        whose: Whose,
        /// Why not.
        source: KubeError,
    },
    /// It was not done in time.
    #[error("the {} was not done within {timeout:?}; {}", whose.work.word, going_on(whose))]
    Timeout {
        /// What was not done.
        whose: Whose,
        /// How long was waited.
        timeout: Duration,
    },
    /// The user does not want to wait.
    #[error("stopped waiting; {}", going_on(whose))]
    Stopped {
        /// For what.
        whose: Whose,
    },
}

/// What holds of work that is not waited for.
fn going_on(whose: &Whose) -> String {
    let (resource, name) = (whose.work.resource, &whose.name);
    let place = match &whose.namespace {
        Some(namespace) => format!("--namespace {namespace} "),
        None => String::new(),
    };
    format!("it goes on in the cluster: kubectl get {place}{resource} {name} --watch")
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
    /// Why the API server made no resource.
    pub(super) fn create(work: &'static Work, error: KubeError) -> Self {
        match error {
            KubeError::Api(status) if status.is_not_found() && !names_object(&status.message) => {
                Self::NotInstalled(work)
            }
            // These are no judgement on what is asked for.
            KubeError::Api(status) if !(400..500).contains(&status.code) || status.code == 429 => {
                let source = KubeError::Api(status);
                Self::NotAsked { work, source }
            }
            KubeError::Api(status) => Self::NotTaken {
                work,
                message: status.message.clone(),
            },
            source => Self::NotAsked { work, source },
        }
    }

    /// Why the API server showed no resources.
    pub(crate) fn read(work: &'static Work, error: KubeError) -> Self {
        match error {
            KubeError::Api(status) if status.is_not_found() && !names_object(&status.message) => {
                Self::NotInstalled(work)
            }
            KubeError::Api(status) if matches!(status.code, 401 | 403) => Self::NotShown {
                work,
                message: status.message.clone(),
            },
            source => Self::NotRead { work, source },
        }
    }

    /// The exit code, which is part of the interface.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Stopped { .. } => 1,
            Self::Cluster(_) => 2,
            Self::NotTaken { .. }
            | Self::NotShown { .. }
            | Self::NotInstalled(_)
            | Self::Refused(_) => 3,
            Self::NotAsked { .. }
            | Self::NotRead { .. }
            | Self::Failed(_)
            | Self::Vanished { .. }
            | Self::Unseen { .. }
            | Self::Timeout { .. } => 4,
        }
    }

    /// The failure in one word.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Cluster(_) => "InvalidKubeconfig",
            Self::NotTaken { .. } => "NotTaken",
            Self::NotShown { .. } => "NotShown",
            Self::NotInstalled(_) => "NotInstalled",
            Self::NotAsked { .. } | Self::NotRead { .. } => "ClusterUnreachable",
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
