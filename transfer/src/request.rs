//! What is asked of the engine, and what it answers.

use std::path::PathBuf;

use hypercloud_disk::{ImageFormat, Packing};
use serde::{Deserialize, Serialize};

use crate::checkpoint::Checkpoint;
use crate::checksum::Checksum;
use crate::observer::Progress;
use crate::secret::Secret;

/// Where an image comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceSpec {
    /// An HTTP or HTTPS server.
    Http(HttpSource),
    /// An S3-compatible object store.
    ObjectStore(StoredObject),
    /// A file or block device of this machine.
    File(PathBuf),
}

/// An image on an HTTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSource {
    /// The address; its user part, if any, is sent as Basic credentials to
    /// this origin only.
    pub url: url::Url,
    /// What the server is to be shown, and trusted by.
    pub access: HttpAccess,
}

impl HttpSource {
    /// An image that anybody may read.
    #[must_use]
    pub fn open(url: url::Url) -> Self {
        Self {
            url,
            access: HttpAccess::default(),
        }
    }
}

/// What an HTTP server is shown, and trusted by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpAccess {
    /// Basic credentials, sent to the address's origin only.
    pub basic: Option<BasicCredentials>,
    /// Further headers, sent to the address's origin only.
    pub headers: Vec<Header>,
    /// Certificates of authorities to trust beside the system's, as PEM.
    pub authorities: Option<String>,
}

/// A user and a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicCredentials {
    /// The user's name.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// A header of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Secret,
}

/// An object in an S3-compatible object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// The bucket's name.
    pub bucket: String,
    /// The object's key.
    pub key: String,
    /// The store.
    pub store: ObjectStore,
}

/// An S3-compatible object store, and how to be let in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectStore {
    /// The store's address; `None` is Amazon's for the region.
    pub endpoint: Option<url::Url>,
    /// The region that requests are signed for; `us-east-1` where none is
    /// given and the environment has none.
    pub region: Option<String>,
    /// Whether the bucket stands in the path (`http://host/bucket/key`)
    /// rather than in the host's name. Stores behind an IP address have it so
    /// always.
    pub path_style: bool,
    /// How requests are signed.
    pub credentials: ObjectStoreCredentials,
    /// Certificates of authorities to trust beside the system's, as PEM.
    pub authorities: Option<String>,
}

/// How requests to an object store are signed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ObjectStoreCredentials {
    /// As the environment says: variables, profiles, web identity, instance
    /// metadata.
    #[default]
    DefaultChain,
    /// With these keys.
    Keys {
        /// The key's id.
        access_key_id: String,
        /// The key.
        secret_access_key: Secret,
        /// Of temporary keys.
        session_token: Option<Secret>,
    },
    /// Not at all.
    Anonymous,
}

/// What is known of a source before any of it is imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceFacts {
    /// The image's format.
    pub format: ImageFormat,
    /// What the image is packed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packing: Option<Packing>,
    /// The size of the disk in bytes, a multiple of 512: a raw source of
    /// another length is padded with zeros. `None` where a packed source does
    /// not tell before all of it was read, and nobody has measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_size: Option<u64>,
    /// The length of the source in bytes, where it is told.
    pub source_size: Option<u64>,
    /// What tells this content from a later one: an ETag, or the time of the
    /// last change.
    pub validator: Option<String>,
    /// Whether parts of the source can be asked for.
    pub ranges: bool,
}

/// Where an image goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetSpec {
    /// A block device, from its first byte. It is zeroed where the image is
    /// zero, and behind the image's end.
    BlockDevice(PathBuf),
    /// A sparse raw file.
    DiskFile(DiskFile),
}

impl TargetSpec {
    /// Where the disk is in the end.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::BlockDevice(path) => path.clone(),
            Self::DiskFile(file) => file.directory.join(&file.name),
        }
    }
}

/// A raw disk in a directory that may belong to somebody else: nothing below
/// the directory is trusted, so no link, mount point or device node below it
/// is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFile {
    /// An existing directory; this path itself is trusted.
    pub directory: PathBuf,
    /// The file's name in it, a single component.
    pub name: String,
    /// User and group ids the file is given.
    pub owner: Option<(u32, u32)>,
    /// The file's permission bits.
    pub mode: u32,
}

/// One import.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// Where the image comes from.
    pub source: SourceSpec,
    /// Where it goes.
    pub target: TargetSpec,
    /// The format the image is said to have; one of another is refused.
    pub format: Option<ImageFormat>,
    /// The digest that the source's bytes are said to have; others are
    /// refused.
    pub checksum: Option<Checksum>,
    /// Whether the target's room is taken up front, so that writing to the
    /// disk later never finds none.
    pub preallocation: bool,
    /// What an earlier probe said; a source that differs has changed.
    pub expected: Option<SourceFacts>,
    /// Where an earlier import of the same source to the same target got to.
    /// It is ignored, and the import starts over, when either differs.
    pub resume: Option<Checkpoint>,
}

impl ImportRequest {
    /// An import of whatever is at the source, from the beginning.
    #[must_use]
    pub fn new(source: SourceSpec, target: TargetSpec) -> Self {
        Self {
            source,
            target,
            format: None,
            checksum: None,
            preallocation: false,
            expected: None,
            resume: None,
        }
    }
}

/// A finished import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// What the source was.
    pub facts: SourceFacts,
    /// The final counts, over all resumed parts.
    pub progress: Progress,
    /// The digest of the source's bytes, where one was asked for.
    pub digest: Option<Checksum>,
}
