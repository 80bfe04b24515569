//! An object in an object store, and what lets in there: the same for images
//! that come from one and for disks that go to one.
//!
//! Invariant: no value that lets anybody in stands in a resource, only the
//! names of the Secrets that hold them.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An object in an S3-compatible object store.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[x_kube(validation = Rule::new("has(self.bucketName) || has(self.objectBucketClaim)")
    .message("bucketName must be set where no objectBucketClaim names the bucket"))]
#[serde(rename_all = "camelCase")]
pub struct StoredObject {
    /// Name of the bucket; the claim's where an `objectBucketClaim` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 3, max = 63))]
    pub bucket_name: Option<String>,
    /// Key of the object.
    #[schemars(length(min = 1, max = 1024))]
    pub object_name: String,
    /// Address of the store, `http://` or `https://`. Where none is set, the
    /// claim's, else the one that the system is set up with, else Amazon's
    /// for the region.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new("isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != ''")
        .message("endpoint must be an absolute http:// or https:// URL with a host"))]
    pub endpoint: Option<String>,
    /// Region that requests are signed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub region: Option<String>,
    /// Whether the bucket stands in the path (`host/bucket/object`) rather
    /// than in the host's name. By default it does, but for Amazon's store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_path_style: Option<bool>,
    /// ObjectBucketClaim in the resource's namespace: its ConfigMap says where
    /// the bucket is, and its Secret lets in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_bucket_claim: Option<BucketClaimReference>,
}

/// An ObjectBucketClaim in the resource's namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct BucketClaimReference {
    /// Name of the claim, and of the ConfigMap and Secret that came with it.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A Secret in the resource's namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A ConfigMap in the resource's namespace with certificates.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct CaReference {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The key that holds the certificates; every key that holds some where
    /// none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub key: Option<String>,
}
