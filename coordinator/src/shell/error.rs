//! What goes wrong between the client and the reconciler, by stage.

use kube::Error as KubeError;

use crate::agents::AgentError;

/// The world could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The API server did not answer with the object.
    #[error("cannot read {what}")]
    Read {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: KubeError,
    },
}

/// An action could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The API server did not answer with what lets in at the source.
    #[error("cannot read what lets in at the source")]
    Access(#[source] KubeError),
    /// The API server did not do it.
    #[error("cannot {what}")]
    Write {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: KubeError,
    },
    /// The agent did not do it.
    #[error("cannot {what}")]
    Agent {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        #[source]
        source: AgentError,
    },
}

/// One reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// While looking.
    #[error("observing failed")]
    Observe(#[from] ObserveError),
    /// While acting.
    #[error("acting failed")]
    Execute(#[from] ExecuteError),
    /// While writing the status.
    #[error("writing the status failed")]
    Status(#[source] KubeError),
    /// The resource cannot be read.
    #[error("the resource does not fit its type: {problem}")]
    Malformed {
        /// What is wrong with it.
        problem: String,
    },
}

impl ReconcileError {
    /// The error in one word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Observe(_) => "ObserveFailed",
            Self::Execute(ExecuteError::Access(_)) => "AccessUnreadable",
            Self::Execute(ExecuteError::Write { .. }) => "WriteFailed",
            Self::Execute(ExecuteError::Agent { source, .. }) => source.reason(),
            Self::Status(error) if is_conflict(error) => "Conflict",
            Self::Status(_) => "StatusFailed",
            Self::Malformed { .. } => "Malformed",
        }
    }

    /// Whether the same reconcile can succeed with nothing changed.
    pub fn is_retryable(&self) -> bool {
        !matches!(self, Self::Malformed { .. })
    }

    /// Whether nothing is wrong: someone else was first, or it is too busy
    /// now. Look again.
    pub fn is_ordinary(&self) -> bool {
        let busy = |error: &AgentError| matches!(error, AgentError::Busy { .. });
        match self {
            Self::Execute(ExecuteError::Agent { source, .. }) => busy(source),
            _ => self.is_conflict(),
        }
    }

    /// Whether someone else wrote first.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Execute(ExecuteError::Write { source, .. }) | Self::Status(source) => {
                is_conflict(source)
            }
            _ => false,
        }
    }
}

/// Whether the object changed, or was there, before the write.
fn is_conflict(error: &KubeError) -> bool {
    matches!(error, KubeError::Api(status) if status.is_conflict() || status.is_already_exists())
}
