//! What one look found of a holder pod. Values only.

use k8s_openapi::jiff::Timestamp;

/// Something wrong that people should read of, while it is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// One CamelCase word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// A holder pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderSeen {
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
    /// When it was made.
    pub since: Option<Timestamp>,
    /// Since when it is being deleted.
    pub deleting_since: Option<Timestamp>,
    /// Node it was placed on.
    pub node: Option<String>,
    /// Where it is in its life.
    pub state: HolderState,
}

/// Where a holder pod is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HolderState {
    /// Not running yet; perhaps something is in its way.
    Waiting(Option<Problem>),
    /// Running: its volumes are mounted.
    Holding,
    /// Ended, which a holder never does by itself.
    Ended {
        /// Why, as far as the pod says.
        message: String,
    },
}
