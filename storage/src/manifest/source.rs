//! Where a file of a release is looked for, and whether what is found is it.
//!
//! Invariant: no byte of a file is used before its checksum was compared.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use hypercloud_api::{HyperCloudStorageSpec, ManifestMirror};
use sha2::{Digest, Sha256};

use super::ManifestError;
use crate::version::Version;
use crate::version::table::{Project, checksum};

/// The largest file that is taken, unpacked.
pub const MAX_FILE: u64 = 16 << 20;

/// A file that is needed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// Whose it is.
    pub project: Project,
    /// Of which release.
    pub version: Version,
    /// Its path in the release.
    pub file: String,
}

/// Where a file is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At an address.
    Address(String),
    /// In ConfigMaps of the coordinator's namespace, under a key, or under
    /// that key and `.gz`.
    ConfigMaps {
        /// Their names, in order.
        names: Vec<String>,
        /// The key.
        key: String,
    },
    /// In a folder.
    File(String),
}

impl Wanted {
    /// The file's path in a mirror.
    #[must_use]
    pub fn path(&self) -> String {
        self.project.path(self.version, &self.file)
    }

    /// Where it is looked for.
    #[must_use]
    pub fn place(&self, mirror: Option<&ManifestMirror>) -> Place {
        let path = self.path();
        let Some(mirror) = mirror else {
            return Place::Address(self.project.address(self.version, &self.file));
        };
        if let Some(http) = &mirror.http {
            return Place::Address(format!("{}/{path}", http.url.trim_end_matches('/')));
        }
        if let Some(names) = &mirror.config_maps {
            return Place::ConfigMaps {
                names: names.clone(),
                key: path.replace('/', "_"),
            };
        }
        match &mirror.folder {
            Some(folder) => Place::File(format!("{}/{path}", folder.trim_end_matches('/'))),
            None => Place::Address(self.project.address(self.version, &self.file)),
        }
    }

    /// The SHA-256 that it has to have: CDI's is the user's to say.
    #[must_use]
    pub fn expected<'a>(&self, spec: &'a HyperCloudStorageSpec) -> Option<&'a str> {
        match self.project {
            Project::Cdi => spec.cdi.as_ref()?.sha256.as_deref(),
            project => checksum(project, self.version, &self.file),
        }
    }

    /// The text of the file, if these bytes are it.
    ///
    /// # Errors
    /// Another checksum, none to compare with, too many bytes.
    pub fn check<'a>(
        &self,
        bytes: &'a [u8],
        expected: Option<&str>,
    ) -> Result<&'a str, ManifestError> {
        let path = self.path();
        if bytes.len() as u64 > MAX_FILE {
            return Err(ManifestError::TooLarge {
                path,
                most: MAX_FILE,
            });
        }
        let Some(expected) = expected else {
            return Err(ManifestError::NoChecksum { path });
        };
        let digest = Sha256::digest(bytes);
        let found: String = digest.iter().map(|b| format!("{b:02x}")).collect();
        if found != expected {
            return Err(ManifestError::WrongChecksum {
                path,
                expected: expected.to_owned(),
                found,
            });
        }
        std::str::from_utf8(bytes).map_err(|e| ManifestError::NoManifest {
            path,
            why: e.to_string(),
        })
    }

    /// The file's bytes out of ConfigMaps, each the bytes by key.
    ///
    /// # Errors
    /// A file that none of them has, or that cannot be unpacked.
    pub fn pick(
        &self,
        key: &str,
        maps: &[(String, BTreeMap<String, Vec<u8>>)],
    ) -> Result<Vec<u8>, ManifestError> {
        let packed = format!("{key}.gz");
        for (_, map) in maps {
            if let Some(bytes) = map.get(key) {
                return Ok(bytes.clone());
            }
            if let Some(bytes) = map.get(&packed) {
                return self.unpack(bytes);
            }
        }
        let names: Vec<&str> = maps.iter().map(|(name, _)| name.as_str()).collect();
        Err(ManifestError::Missing {
            path: self.path(),
            place: format!("the ConfigMaps {} (key {key})", names.join(", ")),
        })
    }

    fn unpack(&self, bytes: &[u8]) -> Result<Vec<u8>, ManifestError> {
        let mut unpacked = Vec::new();
        let read = GzDecoder::new(bytes)
            .take(MAX_FILE + 1)
            .read_to_end(&mut unpacked);
        if read.is_err() {
            return Err(ManifestError::NotPacked { path: self.path() });
        }
        if unpacked.len() as u64 > MAX_FILE {
            return Err(ManifestError::TooLarge {
                path: self.path(),
                most: MAX_FILE,
            });
        }
        Ok(unpacked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use hypercloud_api::HttpMirror;
    use std::io::Write;

    fn crds() -> Wanted {
        Wanted {
            project: Project::Rook,
            version: Version::new(1, 20, 6),
            file: "crds.yaml".into(),
        }
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn files_are_looked_for_where_the_mirror_is() {
        assert_eq!(
            crds().place(None),
            Place::Address(
                "https://raw.githubusercontent.com/rook/rook/v1.20.6/deploy/examples/crds.yaml"
                    .into()
            )
        );
        let http = ManifestMirror {
            http: Some(HttpMirror {
                url: "http://mirror.example/m/".into(),
                ca_config_map: None,
            }),
            ..Default::default()
        };
        assert_eq!(
            crds().place(Some(&http)),
            Place::Address("http://mirror.example/m/rook/v1.20.6/crds.yaml".into())
        );
        let folder = ManifestMirror {
            folder: Some("/manifests/".into()),
            ..Default::default()
        };
        assert_eq!(
            crds().place(Some(&folder)),
            Place::File("/manifests/rook/v1.20.6/crds.yaml".into())
        );
        let maps = ManifestMirror {
            config_maps: Some(vec!["a".into()]),
            ..Default::default()
        };
        assert_eq!(
            crds().place(Some(&maps)),
            Place::ConfigMaps {
                names: vec!["a".into()],
                key: "rook_v1.20.6_crds.yaml".into()
            }
        );
    }

    #[test]
    fn another_file_is_refused() {
        let refused = crds().check(b"kind: Other", crds().expected(&Default::default()));
        let refused = refused.unwrap_err();
        assert_eq!(refused.reason(), "ManifestChecksumWrong");
        assert!(refused.to_string().starts_with("rook/v1.20.6/crds.yaml"));
        let unknown = crds().check(b"", None).unwrap_err();
        assert_eq!(unknown.reason(), "ManifestUnknown");
    }

    #[test]
    fn the_checksum_of_cdi_is_the_users() {
        let wanted = Wanted {
            project: Project::Cdi,
            version: Version::new(1, 66, 0),
            file: "cdi-operator.yaml".into(),
        };
        let mut spec = HyperCloudStorageSpec::default();
        assert_eq!(wanted.expected(&spec), None);
        let sum: String = Sha256::digest(b"text")
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        spec.cdi = Some(hypercloud_api::CdiInstallation {
            sha256: Some(sum),
            version: None,
        });
        assert_eq!(wanted.check(b"text", wanted.expected(&spec)), Ok("text"));
    }

    #[test]
    fn config_maps_hold_files_packed_or_not() {
        let key = "rook_v1.20.6_crds.yaml";
        let of = |key: &str, bytes: &[u8]| {
            let map = BTreeMap::from([(key.to_owned(), bytes.to_owned())]);
            [("empty".to_owned(), BTreeMap::new()), ("m".to_owned(), map)]
        };
        let packed_key = format!("{key}.gz");
        assert_eq!(crds().pick(key, &of(key, b"plain")), Ok(b"plain".to_vec()));
        let file = packed(b"packed");
        assert_eq!(
            crds().pick(key, &of(&packed_key, &file)),
            Ok(b"packed".to_vec())
        );
        let missing = crds().pick(key, &of("other", b"")).unwrap_err();
        assert_eq!(missing.reason(), "ManifestMissing");
        let broken = crds().pick(key, &of(&packed_key, b"no gzip")).unwrap_err();
        assert!(matches!(broken, ManifestError::NotPacked { .. }));
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let key = "rook_v1.20.6_crds.yaml";
        let bomb = packed(&vec![0; MAX_FILE as usize + 1]);
        let map = BTreeMap::from([(format!("{key}.gz"), bomb)]);
        let refused = crds().pick(key, &[("m".to_owned(), map)]).unwrap_err();
        assert!(matches!(refused, ManifestError::TooLarge { .. }));
    }
}
