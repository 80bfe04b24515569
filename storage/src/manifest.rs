//! Manifests: from files to objects.

pub mod image;
pub mod source;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use self::source::Wanted;
use crate::object::Key;

/// Why a file is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The phrases say what the fields are.
pub enum ManifestError {
    #[error(
        "{path} has the SHA-256 {found} and not {expected}: it is not the file that was released; look at where it comes from"
    )]
    WrongChecksum {
        path: String,
        expected: String,
        found: String,
    },
    #[error(
        "no checksum of {path} is known, so it is not used: CDI's has to be said in cdi.sha256"
    )]
    NoChecksum { path: String },
    #[error("{path} is not in {place}: put it there, or set another source in manifests")]
    Missing { path: String, place: String },
    #[error("{path} is larger than {most} bytes")]
    TooLarge { path: String, most: u64 },
    #[error("{path} cannot be unpacked: it is no gzip file")]
    NotPacked { path: String },
    #[error("{path} is no manifest: {why}")]
    NoManifest { path: String, why: String },
    #[error("{path} could not be fetched from {place}: {why}; it is tried again, {remedy}")]
    Unreachable {
        path: String,
        place: String,
        why: String,
        remedy: &'static str,
    },
    #[error(
        "{path} is not to be had from {place}: {why}; put that right, or set another source in manifests"
    )]
    Refused {
        path: String,
        place: String,
        why: String,
    },
    #[error(
        "{path} is not taken from {place}: {why}; an authority of one's own is named in manifests.http.caConfigMap"
    )]
    Untrusted {
        path: String,
        place: String,
        why: String,
    },
    #[error(
        "{path} is not fetched: the ConfigMap {config_map} of manifests.http.caConfigMap {why}; put it right"
    )]
    Authorities {
        path: String,
        config_map: String,
        why: String,
    },
}

impl ManifestError {
    /// One CamelCase word.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::WrongChecksum { .. } => "ManifestChecksumWrong",
            Self::NoChecksum { .. } => "ManifestUnknown",
            Self::Missing { .. } => "ManifestMissing",
            Self::TooLarge { .. } | Self::NotPacked { .. } | Self::NoManifest { .. } => {
                "ManifestInvalid"
            }
            Self::Unreachable { .. } => "ManifestUnreachable",
            Self::Refused { .. } => "ManifestRefused",
            Self::Untrusted { .. } => "ManifestServerUntrusted",
            Self::Authorities { .. } => "ManifestAuthorityInvalid",
        }
    }
}

/// Files that were fetched, by what they are: their objects, or why there are
/// none. The objects are shared, since they are large and looked at often.
pub type Files = BTreeMap<Wanted, Result<Arc<Vec<Value>>, ManifestError>>;

/// The objects of a file, if these bytes are it.
///
/// # Errors
/// Another checksum, none to compare with, what is no manifest.
pub fn read(
    wanted: &Wanted,
    bytes: &[u8],
    expected: Option<&str>,
) -> Result<Vec<Value>, ManifestError> {
    split(&wanted.path(), wanted.check(bytes, expected)?)
}

/// The objects of a file that may hold several documents. Empty documents,
/// as between two separators, are none.
///
/// # Errors
/// What is no YAML, and documents that are no objects.
pub fn split(path: &str, text: &str) -> Result<Vec<Value>, ManifestError> {
    let no = |number: usize, why: String| ManifestError::NoManifest {
        path: path.to_owned(),
        why: format!("document {number}: {why}"),
    };
    let mut objects = Vec::new();
    for (number, document) in serde_yaml::Deserializer::from_str(text).enumerate() {
        let value = Value::deserialize(document).map_err(|e| no(number + 1, e.to_string()))?;
        if value.is_null() {
            continue;
        }
        if Key::of(&value).is_none() {
            let why = "an object has apiVersion, kind and metadata.name";
            return Err(no(number + 1, why.to_owned()));
        }
        objects.push(value);
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn documents_are_split_and_empty_ones_left_out() {
        let text = "# words\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n---\n# more\n---\nkind: ConfigMap\napiVersion: v1\nmetadata:\n  name: b\ndata:\n  x: |\n    ---\n    not: another\n";
        let objects = split("f.yaml", text).unwrap();
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[1]["data"]["x"], "---\nnot: another\n");
    }

    #[test]
    fn what_is_no_object_is_refused_with_its_number() {
        let text = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n---\nkind: B\n";
        let refused = split("f.yaml", text).unwrap_err();
        assert_eq!(refused.reason(), "ManifestInvalid");
        assert!(refused.to_string().contains("document 2"), "{refused}");
        assert!(split("f.yaml", "a: [").is_err());
        assert!(split("f.yaml", "- 1\n").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_split_or_refused(text in "[-a:{}\\[\\]\n #|>&*!%@'\"0-9]{0,120}") {
            let _ = split("f.yaml", &text);
        }

        #[test]
        fn what_was_joined_is_split(names in prop::collection::vec("[a-z]{1,8}", 0..8)) {
            let text: String = names
                .iter()
                .map(|name| format!("---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: x{name}\n"))
                .collect();
            let found: Vec<String> = split("f.yaml", &text)
                .unwrap()
                .iter()
                .map(|o| o["metadata"]["name"].as_str().unwrap()[1..].to_owned())
                .collect();
            prop_assert_eq!(found, names);
        }
    }
}
