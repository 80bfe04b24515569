//! Writing to the API server (client required).
//!
//! Everything is safe to repeat: what exists already is left to the next
//! look, what is gone already is taken as deleted, and a deletion names the
//! UID that was seen, so it never meets a successor of the same name.

use std::fmt::Debug;

use hypercloud_api::{GROUP, VERSION, names};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::{ClusterResourceScope, NamespaceResourceScope, Status};
use kube::{Client, Error as KubeError, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::error::ExecuteError;
use crate::holder::Problem;

/// Where resources of a kind are.
pub trait Place: Sized {
    /// The resources of the kind `K` that are beside `object`.
    fn beside<K>(client: &Client, object: &K) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = Self>;
}

impl Place for NamespaceResourceScope {
    fn beside<K>(client: &Client, object: &K) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = Self>,
    {
        let namespace = object.meta().namespace.as_deref().unwrap_or_default();
        Api::namespaced(client.clone(), namespace)
    }
}

impl Place for ClusterResourceScope {
    fn beside<K>(client: &Client, _: &K) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = Self>,
    {
        Api::all(client.clone())
    }
}

/// A resource of this project.
pub trait Owned:
    Resource<DynamicType = (), Scope: Place> + Clone + Debug + DeserializeOwned
{
}

impl<K> Owned for K where
    K: Resource<DynamicType = (), Scope: Place> + Clone + Debug + DeserializeOwned
{
}

/// Whether the finalizer is to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalizer {
    /// It is put on.
    Present,
    /// It is taken off.
    Absent,
}

/// Puts the finalizer on `object` or takes it off, provided that the object
/// still is as it was seen.
pub async fn set_finalizer<K: Owned>(
    client: &Client,
    object: &K,
    wanted: Finalizer,
) -> Result<(), ExecuteError> {
    let meta = object.meta();
    let mut finalizers = meta.finalizers.clone().unwrap_or_default();
    finalizers.retain(|name| name != names::FINALIZER);
    if wanted == Finalizer::Present {
        finalizers.push(names::FINALIZER.to_owned());
    }
    let patch = json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "finalizers": finalizers,
    }});
    let objects = <K::Scope as Place>::beside(client, object);
    let name = meta.name.as_deref().unwrap_or_default();
    let patched = objects
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await;
    match patched {
        Err(KubeError::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => {
            let what = "change the finalizer";
            Err(ExecuteError::Write { what, source })
        }
        Ok(_) => Ok(()),
    }
}

/// Writes the status, provided that the object still is as it was seen.
pub async fn set_status<K: Owned, S: Serialize>(
    client: &Client,
    object: &K,
    status: &S,
) -> Result<(), KubeError> {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    let objects = <K::Scope as Place>::beside(client, object);
    let object = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": K::kind(&()),
        "metadata": {
            "name": name,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        },
        "status": status,
    });
    let manager = PatchParams::apply(names::FIELD_MANAGER).force();
    objects
        .patch_status(name, &manager, &Patch::Apply(&object))
        .await?;
    Ok(())
}

/// A deletion of the object with this UID and no other.
pub fn exactly(uid: &str) -> DeleteParams {
    DeleteParams::background().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    })
}

/// What is created, in words.
#[derive(Clone, Copy, Debug)]
pub struct Creation {
    /// What is done, as in "cannot ...".
    pub what: &'static str,
    /// Reason where the API server refuses it.
    pub refused: &'static str,
    /// Reason where another object has the name.
    pub conflict: &'static str,
}

impl Creation {
    /// A claim.
    pub const CLAIM: Self = Self {
        what: "create the claim",
        refused: "ClaimRefused",
        conflict: "ClaimConflict",
    };
    /// A snapshot.
    pub const SNAPSHOT: Self = Self {
        what: "create the snapshot",
        refused: "SnapshotRefused",
        conflict: "SnapshotConflict",
    };
    /// A Secret.
    pub const SECRET: Self = Self {
        what: "create the Secret",
        refused: "SecretRefused",
        conflict: "SecretConflict",
    };
    /// A holder pod.
    pub const HOLDER: Self = Self {
        what: "create the holder pod",
        refused: "HolderRefused",
        conflict: "HolderConflict",
    };
}

/// What came of a creation. A refusal (quota, policy, a webhook), or an
/// object of the name that was not seen as the resource's own, is not this
/// coordinator's error: the user has to read of it.
pub fn created<K>(
    result: Result<K, KubeError>,
    creation: Creation,
) -> Result<Option<Problem>, ExecuteError> {
    let Creation {
        what,
        refused,
        conflict,
    } = creation;
    let told = |reason: &str, status: &Status| {
        Ok(Some(Problem {
            reason: reason.to_owned(),
            message: format!("the API server refuses to {what}: {}", status.message),
        }))
    };
    match result {
        Ok(_) => Ok(None),
        Err(KubeError::Api(status)) if status.is_already_exists() => told(conflict, &status),
        Err(KubeError::Api(status)) if is_refusal(&status) => told(refused, &status),
        Err(source) => Err(ExecuteError::Write { what, source }),
    }
}

/// Whether the answer is about the object: a webhook that fails is a 500.
/// The others say to come again.
fn is_refusal(status: &Status) -> bool {
    !matches!(status.code, 409 | 429 | 503 | 504)
}

/// What is gone, or has become another object, is deleted.
pub fn deleted<T>(result: Result<T, KubeError>, what: &'static str) -> Result<(), ExecuteError> {
    match result {
        Ok(_) => Ok(()),
        Err(KubeError::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        Err(source) => Err(ExecuteError::Write { what, source }),
    }
}
