//! Where an image comes from, how the source is reached, and what it is said
//! to be.
//!
//! Invariant: no value that lets anybody in stands in the resource, only the
//! names of the Secrets that hold them.

use kube::KubeSchema;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CaReference, SecretReference, StoredObject};

/// Headers that no image may set, in lower case: the transfer makes them
/// itself, or they concern one connection and not the image.
pub const RESERVED_HEADERS: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Where an image comes from: exactly one of `http` and `objectStore`, and
/// what goes with it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[x_kube(validation = Rule::new("has(self.http) != has(self.objectStore)")
    .message("exactly one of http and objectStore must be set"))]
#[x_kube(validation = Rule::new("!(has(self.caConfigMap) && has(self.certConfigMap))")
    .message("caConfigMap and certConfigMap name the same thing: set one of them"))]
#[x_kube(validation = Rule::new("has(self.http) || (!has(self.headers) && !has(self.secretHeaders))")
    .message("headers and secretHeaders are for http sources"))]
#[x_kube(validation = Rule::new("!has(self.secretRef) || !has(self.headers) || !self.headers.exists(h, h.name.lowerAscii() == 'authorization')")
    .message("secretRef makes the Authorization header: set one of them"))]
#[x_kube(validation = Rule::new("!has(self.secretRef) || !has(self.objectStore) || !has(self.objectStore.objectBucketClaim)")
    .message("the objectBucketClaim brings its own Secret: set it or secretRef"))]
#[serde(rename_all = "camelCase")]
pub struct ImageSource {
    /// Address of a qcow2 or raw image, `http://` or `https://`; it may be
    /// packed in gzip, xz or Zstandard.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new("isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''")
        .message("http must be an absolute http:// or https:// URL with a host"))]
    pub http: Option<String>,

    /// An object in an S3-compatible object store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_store: Option<StoredObject>,

    /// Digest of the source's bytes, as `sha256:HEX` or `sha512:HEX`. An
    /// image with another one fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 135))]
    #[x_kube(validation = Rule::new("self.matches('^(sha256:[0-9a-fA-F]{64}|sha512:[0-9a-fA-F]{128})$')")
        .message("checksum must be sha256: and 64, or sha512: and 128 hexadecimal digits"))]
    pub checksum: Option<String>,

    /// Format that the image is said to have; one of another fails. Found out
    /// where it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<DeclaredFormat>,

    /// Secret in the image's namespace that lets in. For `http`, its keys
    /// `username` and `password` (or `accessKeyId` and `secretKey`) are Basic
    /// credentials. For `objectStore`, its keys `accessKeyId` and `secretKey`
    /// (or `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, with
    /// `AWS_SESSION_TOKEN` where the keys are temporary) sign the requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,

    /// ConfigMap in the image's namespace with certificates (PEM) of
    /// authorities to trust beside the public ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_config_map: Option<CaReference>,

    /// Name of such a ConfigMap, all of whose keys are read: another way of
    /// writing `caConfigMap`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub cert_config_map: Option<String>,

    /// Headers of every request to the address. What is secret in them
    /// belongs into `secretHeaders`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub headers: Vec<Header>,

    /// Secrets in the image's namespace whose every value is a header, as
    /// `Name: value`; their keys do not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub secret_headers: Vec<SecretReference>,
}

/// Format that an image is said to have.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum DeclaredFormat {
    /// QEMU's copy-on-write format, versions 2 and 3.
    Qcow2,
    /// The disk's bytes as they are.
    Raw,
}

/// A header of a request.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Name of the header.
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9A-Za-z!#$%&*+.^_`|~-]+$')")
        .message("a header's name is made of letters, digits and !#$%&*+.^_`|~-"))]
    #[x_kube(validation = reserved())]
    pub name: String,
    /// Value of the header, in printable ASCII characters.
    #[schemars(length(max = 4096))]
    #[x_kube(validation = Rule::new("self.matches('^[ -~]*$')")
        .message("a header's value is made of printable ASCII characters"))]
    pub value: String,
}

/// The rule that keeps [`RESERVED_HEADERS`] away.
fn reserved() -> Rule {
    let names: Vec<String> = RESERVED_HEADERS
        .iter()
        .map(|name| format!("'{name}'"))
        .collect();
    Rule::new(format!("!(self.lowerAscii() in [{}])", names.join(", ")))
        .message("this header is the transfer's own, or of one connection only: leave it out")
}

impl ImageSource {
    /// The ConfigMap with certificates, however it is written.
    pub fn ca(&self) -> Option<CaReference> {
        let alias = || {
            let name = self.cert_config_map.clone()?;
            Some(CaReference { name, key: None })
        };
        self.ca_config_map.clone().or_else(alias)
    }
}
