//! Objects of any kind, as JSON (client required).
//!
//! Types of this project's own making would drop what they do not know; what
//! is applied and judged here is whole.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use hypercloud_api::names;
use hypercloud_storage::kind::{Kind, Which};
use hypercloud_storage::object::{ANNOTATION_APPLIED, ANNOTATION_FOUND, Key, LABEL_STAGE};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::core::request::Error as RequestError;
use kube::{Client, Error as KubeError, Resource};
use serde_json::Value;

/// Objects that are asked for at once.
const PAGE: u32 = 500;

/// How much of an object is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Much {
    /// All of it.
    Whole,
    /// Its metadata.
    Metadata,
}

/// The resource of a kind, as the client knows it.
#[must_use]
pub fn resource(kind: &Kind) -> ApiResource {
    let (group, version) = kind.group_version();
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: kind.api_version.to_owned(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    }
}

/// Where an object is. Of a kind that is not known here the plural follows
/// from the rules of English.
fn place(key: &Key) -> Request {
    let resource = match Kind::of(key) {
        Some(kind) => resource(kind),
        None => {
            let version = key.api_version.rsplit('/').next().unwrap_or_default();
            let kind = GroupVersionKind::gvk(key.group(), version, &key.kind);
            ApiResource::from_gvk(&kind)
        }
    };
    let path = DynamicObject::url_path(&resource, key.namespace.as_deref());
    Request::new(path)
}

/// The objects of a kind; `None` where the API server does not know it, which
/// it says with a code and no reason.
pub async fn list(
    client: &Client,
    kind: &'static Kind,
    which: Which,
    much: Much,
) -> Result<Option<Vec<Value>>, KubeError> {
    let path = DynamicObject::url_path(&resource(kind), kind.place(which));
    let request = Request::new(path);
    let mut params = ListParams::default().limit(PAGE);
    if let Some(labels) = which.labels() {
        params = params.labels(labels);
    }
    let mut found = Vec::new();
    loop {
        let page = match much {
            Much::Whole => request.list(&params),
            Much::Metadata => request.list_metadata(&params),
        };
        let mut page: Value = match client.request(page.map_err(KubeError::BuildRequest)?).await {
            Ok(page) => page,
            Err(KubeError::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(error),
        };
        let items = page["items"].take();
        let Value::Array(items) = items else {
            return Ok(Some(found));
        };
        found.extend(items.into_iter().map(|item| called(item, kind)));
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => params = params.continue_token(next),
            _ => return Ok(Some(found)),
        }
    }
}

/// One object of a kind, where it is there.
pub async fn get(
    client: &Client,
    kind: &'static Kind,
    namespace: Option<&str>,
    name: &str,
    much: Much,
) -> Result<Option<Value>, KubeError> {
    let path = DynamicObject::url_path(&resource(kind), namespace);
    let request = Request::new(path);
    let params = GetParams::default();
    let request = match much {
        Much::Whole => request.get(name, &params),
        Much::Metadata => request.get_metadata(name, &params),
    };
    let answer = client.request(request.map_err(KubeError::BuildRequest)?);
    let found = there(answer.await)?;
    Ok(found.map(|found| called(found, kind)))
}

/// The metadata of an object, where it is there.
pub async fn metadata(client: &Client, key: &Key) -> Result<Option<Value>, KubeError> {
    let request = place(key).get_metadata(&key.name, &GetParams::default());
    let answer = client.request(request.map_err(KubeError::BuildRequest)?);
    there(answer.await)
}

/// What was asked for, where it is there: of a kind that the API server does
/// not know it says no more than a code.
fn there(answer: Result<Value, KubeError>) -> Result<Option<Value>, KubeError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(KubeError::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Items of a list do not say what they are, and metadata say it wrongly.
fn called(mut object: Value, kind: &Kind) -> Value {
    if object.is_object() {
        object["apiVersion"] = kind.api_version.into();
        object["kind"] = kind.kind.into();
    }
    object
}

/// Applies an object, and answers with its mark. What others mean is taken
/// from them.
pub async fn apply(client: &Client, key: &Key, object: &Value) -> Result<Option<u64>, KubeError> {
    let manager = PatchParams::apply(names::FIELD_MANAGER).force();
    let request = place(key).patch_metadata(&key.name, &manager, &Patch::Apply(object));
    let applied: Value = client
        .request(request.map_err(KubeError::BuildRequest)?)
        .await?;
    Ok(mark(&applied))
}

/// Creates an object.
pub async fn create(client: &Client, key: &Key, object: &Value) -> Result<(), KubeError> {
    let params = PostParams {
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let body = serde_json::to_vec(object)
        .map_err(|error| KubeError::BuildRequest(RequestError::SerializeBody(error)))?;
    let request = place(key).create(&params, body);
    let _: Value = client
        .request(request.map_err(KubeError::BuildRequest)?)
        .await?;
    Ok(())
}

/// Merges `change` into an object.
pub async fn merge(client: &Client, key: &Key, change: &Value) -> Result<(), KubeError> {
    let manager = PatchParams {
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let request = place(key).patch_metadata(&key.name, &manager, &Patch::Merge(change));
    let _: Value = client
        .request(request.map_err(KubeError::BuildRequest)?)
        .await?;
    Ok(())
}

/// Deletes an object.
pub async fn delete(client: &Client, key: &Key, params: &DeleteParams) -> Result<(), KubeError> {
    let request = place(key).delete(&key.name, params);
    let _: Value = client
        .request(request.map_err(KubeError::BuildRequest)?)
        .await?;
    Ok(())
}

/// A number that tells which fields of an object are this coordinator's: it
/// changes when somebody else changes one of them.
#[must_use]
pub fn mark(object: &Value) -> Option<u64> {
    let fields = object["metadata"]["managedFields"].as_array()?;
    let ours = fields.iter().find(|entry| {
        entry["manager"] == names::FIELD_MANAGER
            && entry["operation"] == "Apply"
            && entry["subresource"].as_str().unwrap_or_default().is_empty()
    })?;
    let mut hasher = DefaultHasher::new();
    ours["fieldsV1"].to_string().hash(&mut hasher);
    Some(hasher.finish())
}

/// Takes the label of a stage from an object that somebody else gave it to, as
/// whoever copies one does: it is not this system's.
pub fn disown(object: &mut Value) {
    let metadata = &mut object["metadata"];
    let Some(fields) = metadata["managedFields"].as_array() else {
        return;
    };
    let label = format!("f:{LABEL_STAGE}");
    let ours = fields.iter().any(|entry| {
        entry["manager"] == names::FIELD_MANAGER
            && !entry["fieldsV1"]["f:metadata"]["f:labels"][&label].is_null()
    });
    if !ours && let Some(labels) = metadata["labels"].as_object_mut() {
        labels.remove(LABEL_STAGE);
    }
}

/// Takes away of an object what nothing is judged by: who has which field, and
/// what an earlier tool keeps of its own.
pub fn slim(object: &mut Value) {
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    metadata.remove("managedFields");
    if let Some(annotations) = metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
    {
        annotations.remove(LAST);
    }
}

/// What is kept of a definition.
#[must_use]
pub fn definition(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut kept = serde_json::json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": {
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "labels": metadata["labels"],
            "annotations": {},
        },
        "status": {"conditions": object["status"]["conditions"]},
    });
    for name in [ANNOTATION_APPLIED, ANNOTATION_FOUND] {
        let value = &metadata["annotations"][name];
        if !value.is_null() {
            kept["metadata"]["annotations"][name] = value.clone();
        }
    }
    if !metadata["deletionTimestamp"].is_null() {
        kept["metadata"]["deletionTimestamp"] = metadata["deletionTimestamp"].clone();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn managed(fields: Value) -> Value {
        json!({"metadata": {"managedFields": [
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {}}},
            {"manager": names::FIELD_MANAGER, "operation": "Apply", "subresource": "status",
             "fieldsV1": {}},
            {"manager": names::FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields},
        ]}})
    }

    #[test]
    fn a_field_that_somebody_takes_changes_the_mark() {
        let whole = managed(json!({"f:spec": {"f:a": {}, "f:b": {}}}));
        let taken = managed(json!({"f:spec": {"f:a": {}}}));
        assert_eq!(mark(&whole), mark(&whole.clone()));
        assert_ne!(mark(&whole), mark(&taken));
        assert_eq!(mark(&json!({"metadata": {}})), None);
    }

    #[test]
    fn objects_are_looked_for_where_they_are() {
        let of = |key: &Key| place(key).url_path;
        let claim = Key::namespaced("objectbucket.io/v1alpha1", "ObjectBucketClaim", "n", "c");
        assert_eq!(
            of(&claim),
            "/apis/objectbucket.io/v1alpha1/namespaces/n/objectbucketclaims"
        );
        let space = Key::cluster("v1", "Namespace", "n");
        assert_eq!(of(&space), "/api/v1/namespaces");
        let other = Key::cluster("scheduling.k8s.io/v1", "PriorityClass", "p");
        assert_eq!(of(&other), "/apis/scheduling.k8s.io/v1/priorityclasses");
    }

    #[test]
    fn a_label_that_others_gave_is_not_this_systems() {
        let of = |manager: &str| {
            let fields = json!({"f:metadata": {"f:labels": {format!("f:{LABEL_STAGE}"): {}}}});
            let mut object = json!({"metadata": {"labels": {LABEL_STAGE: "toolbox", "l": "x"},
                "managedFields": [{"manager": manager, "fieldsV1": fields}]}});
            disown(&mut object);
            object["metadata"]["labels"].clone()
        };
        assert_eq!(of("kubectl"), json!({"l": "x"}));
        let ours = json!({LABEL_STAGE: "toolbox", "l": "x"});
        assert_eq!(of(names::FIELD_MANAGER), ours);
    }

    #[test]
    fn of_a_definition_its_schema_is_left_out() {
        let object = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "d", "uid": "u", "resourceVersion": "7", "labels": {"l": "x"},
                "annotations": {ANNOTATION_APPLIED: "digest", ANNOTATION_FOUND: "true", "other": "y"}},
            "spec": {"versions": []},
            "status": {"conditions": [{"type": "Established", "status": "True"}],
                "storedVersions": ["v1"]},
        });
        let kept = definition(&object);
        assert!(kept.get("spec").is_none());
        assert!(kept["metadata"].get("deletionTimestamp").is_none());
        assert_eq!(
            kept["metadata"]["annotations"],
            json!({ANNOTATION_APPLIED: "digest", ANNOTATION_FOUND: "true"})
        );
        assert_eq!(kept["status"]["conditions"][0]["type"], "Established");
    }
}
