//! Why a place did not give a file, and what people read of it.

use hypercloud_storage::manifest::ManifestError;
use hypercloud_storage::manifest::source::MAX_FILE;

/// What is tried where there is a mirror, and where there is none.
const REMEDIES: [&str; 2] = [
    "and goes on once the mirror answers",
    "and a cluster that does not reach the projects' addresses is given a mirror in manifests",
];

/// Why a place did not give a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It does not have it.
    Missing,
    /// It does not give it to us, whatever we do.
    Refused(String),
    /// It does not answer, or not to the end.
    Unreachable(String),
    /// It cannot show that it is who it says.
    Untrusted(String),
    /// The file is too large.
    TooLarge,
}

impl Trouble {
    /// The error of the file `path`, which was to come from `place`.
    pub(super) fn of(self, path: String, place: String, is_mirror: bool) -> ManifestError {
        match self {
            Self::Missing => ManifestError::Missing { path, place },
            Self::Refused(why) => ManifestError::Refused { path, place, why },
            Self::Unreachable(why) => ManifestError::Unreachable {
                path,
                place,
                why,
                remedy: REMEDIES[usize::from(!is_mirror)],
            },
            Self::Untrusted(why) => ManifestError::Untrusted { path, place, why },
            Self::TooLarge => ManifestError::TooLarge {
                path,
                most: MAX_FILE,
            },
        }
    }
}

/// The certificates to trust that a ConfigMap was to hold are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Authorities {
    /// The ConfigMap's name.
    pub config_map: String,
    /// What is wrong with it.
    pub why: String,
}

impl Authorities {
    /// The error of the file `path`.
    pub(super) fn of(&self, path: String) -> ManifestError {
        ManifestError::Authorities {
            path,
            config_map: self.config_map.clone(),
            why: self.why.clone(),
        }
    }
}
