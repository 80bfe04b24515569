//! What becomes of the data when the storage is removed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of the data when the resource is deleted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct StorageCleanup {
    /// `yes-really-destroy-data`: the deletion removes everything and wipes
    /// the devices. Without it the deletion lets go of what is installed, and
    /// all data stays where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<CleanupConfirmation>,
    /// How thoroughly devices are wiped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sanitize: Option<SanitizeMethod>,
    /// Whether the custom resource definitions go too, and with them every
    /// object of their kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definitions: Option<DefinitionsPolicy>,
}

/// The words that allow data to be destroyed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupConfirmation {
    /// All data of the storage is destroyed.
    #[serde(rename = "yes-really-destroy-data")]
    YesReallyDestroyData,
}

/// How thoroughly devices are wiped.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SanitizeMethod {
    /// What says that they belong to Ceph.
    #[default]
    Quick,
    /// Every block.
    Complete,
}

impl SanitizeMethod {
    /// The method as Rook spells it.
    #[must_use]
    pub fn as_rook(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Complete => "complete",
        }
    }
}

/// Whether custom resource definitions are removed.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefinitionsPolicy {
    /// They stay.
    #[default]
    Keep,
    /// They go, but for those of which objects are left.
    Remove,
}
