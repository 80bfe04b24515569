//! The API server holds the resources to their schemas and their rules.

mod cleanup;
mod disk;
mod export;
mod inventory;
mod rollback;
mod storage;

use e2e::cluster::{Cluster, Scope};
use hypercloud_api::VirtualMachineImage;
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The mission's example, to the letter.
const EXAMPLE: &str = "
apiVersion: hypercloud.tmaxanc.com/v1alpha1
kind: VirtualMachineImage
metadata: {name: ubuntu18.04}
spec:
  storageClassName: cephrbd
  source:
    http: https://cloud-images.ubuntu.com/bionic/current/bionic-server-cloudimg-amd64.img
";

async fn scope(name: &str) -> anyhow::Result<Scope> {
    Cluster::connect().await?.scope(name).await
}

/// Asks the server to judge a spec without keeping it; what it said against
/// it, if anything.
async fn refusal<K>(scope: &Scope, spec: Value) -> anyhow::Result<Option<String>>
where
    K: Resource<DynamicType = ()>,
{
    let resource = kube::core::ApiResource::erase::<K>(&());
    let api: kube::Api<DynamicObject> =
        kube::Api::namespaced_with(scope.cluster.client.clone(), &scope.namespace, &resource);
    let object = DynamicObject::new("candidate", &resource).data(json!({"spec": spec}));
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match api.create(&parameters, &object).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message)),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test]
async fn the_example_applies_as_written() -> anyhow::Result<()> {
    let scope = scope("example").await?;
    let image: Value = serde_yaml::from_str(EXAMPLE)?;
    let api = scope.api::<VirtualMachineImage>();
    let parameters = PatchParams::apply("e2e");
    let applied = api
        .patch("ubuntu18.04", &parameters, &Patch::Apply(&image))
        .await?;
    assert_eq!(applied.spec.storage_class_name.as_deref(), Some("cephrbd"));
    scope.close().await
}

#[tokio::test]
async fn exactly_one_source_with_a_usable_address_is_accepted() -> anyhow::Result<()> {
    let scope = scope("rules").await?;
    let http = "http://example.org/disk.qcow2";
    let store = json!({"bucketName": "vm-image", "objectName": "disk"});
    for (spec, said) in [
        (json!({"source": {"http": http}}), None),
        (json!({"source": {"objectStore": store}}), None),
        (
            json!({"source": {"http": "http://[2001:db8::1]:8080/disk"}}),
            None,
        ),
        (
            json!({"source": {}}),
            Some("exactly one of http and objectStore"),
        ),
        (
            json!({"source": {"http": http, "objectStore": store}}),
            Some("exactly one of"),
        ),
        (
            json!({"source": {"http": "ftp://example.org/disk"}}),
            Some("absolute http:// or https://"),
        ),
        (
            json!({"source": {"http": "disk.qcow2"}}),
            Some("absolute http:// or https://"),
        ),
        (
            json!({"source": {"http": "http:///disk"}}),
            Some("absolute http:// or https://"),
        ),
        (json!({"source": {"http": ""}}), Some("spec.source.http")),
        (json!({}), Some("spec.source: Required")),
        (
            json!({"source": {"http": http}, "storageClassName": ""}),
            Some("spec.storageClassName"),
        ),
        (
            json!({"source": {"http": http}, "pvc": {"volumeMode": "Tape"}}),
            Some("spec.pvc.volumeMode"),
        ),
        (
            json!({"source": {"objectStore": {"bucketName": "vm-image"}}}),
            Some("objectName: Required"),
        ),
    ] {
        judged::<VirtualMachineImage>(&scope, spec, said).await?;
    }
    scope.close().await
}

/// The server says `said` against a `K` of this `spec`, or nothing.
async fn judged<K>(scope: &Scope, spec: Value, said: Option<&str>) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()>,
{
    let answer = refusal::<K>(scope, spec.clone()).await?;
    match (said, &answer) {
        (None, None) => {}
        (Some(said), Some(answer)) if answer.contains(said) => {}
        _ => anyhow::bail!("{spec}: expected {said:?}, the server answered {answer:?}"),
    }
    Ok(())
}

#[tokio::test]
async fn how_a_source_is_reached_makes_sense_or_is_refused() -> anyhow::Result<()> {
    let scope = scope("reached").await?;
    let http = |more: Value| {
        let mut source = json!({"http": "http://example.org/disk"});
        source
            .as_object_mut()
            .into_iter()
            .for_each(|fields| fields.extend(more.as_object().cloned().unwrap_or_default()));
        json!({"source": source})
    };
    let store = |store: Value, more: Value| {
        let mut source = more;
        source["objectStore"] = store;
        source["objectStore"]["objectName"] = json!("disk");
        json!({"source": source})
    };
    let header =
        |name: &str, value: &str| http(json!({"headers": [{"name": name, "value": value}]}));
    let digest = |text: String| http(json!({"checksum": text}));
    for (spec, said) in [
        (digest(format!("sha256:{}", "0aF".repeat(21) + "0")), None),
        (digest(format!("sha512:{}", "0a".repeat(64))), None),
        (digest("sha256:0a".into()), Some("checksum must be")),
        (
            digest(format!("md5:{}", "0a".repeat(16))),
            Some("checksum must be"),
        ),
        (http(json!({"format": "raw"})), None),
        (http(json!({"format": "vmdk"})), Some("source.format")),
        (header("X-Token", "a b~"), None),
        (header("accept-Encoding", "gzip"), Some("leave it out")),
        (header("Host", "inside"), Some("leave it out")),
        (header("X Token", "a"), Some("name is made of")),
        (
            header("X-Token", "a\r\nHost: inside"),
            Some("value is made of"),
        ),
        (
            http(
                json!({"secretRef": {"name": "a"}, "secretHeaders": [{"name": "b"}],
                "caConfigMap": {"name": "c", "key": "ca.crt"}}),
            ),
            None,
        ),
        (http(json!({"certConfigMap": "c"})), None),
        (
            http(json!({"certConfigMap": "c", "caConfigMap": {"name": "c"}})),
            Some("set one of them"),
        ),
        (
            http(json!({"secretRef": {"name": "a"},
                "headers": [{"name": "authorization", "value": "x"}]})),
            Some("set one of them"),
        ),
        (http(json!({"secretRef": {}})), Some("name: Required")),
        (
            store(
                json!({"bucketName": "images", "endpoint": "http://10.0.0.9:9000",
                "region": "here", "forcePathStyle": true}),
                json!({"secretRef": {"name": "a"}}),
            ),
            None,
        ),
        (
            store(json!({"objectBucketClaim": {"name": "a"}}), json!({})),
            None,
        ),
        (store(json!({}), json!({})), Some("bucketName must be set")),
        (
            store(
                json!({"bucketName": "images", "endpoint": "10.0.0.9:9000"}),
                json!({}),
            ),
            Some("endpoint must be"),
        ),
        (
            store(
                json!({"objectBucketClaim": {"name": "a"}}),
                json!({"secretRef": {"name": "a"}}),
            ),
            Some("brings its own Secret"),
        ),
        (
            store(
                json!({"bucketName": "images"}),
                json!({"secretHeaders": [{"name": "a"}]}),
            ),
            Some("are for http sources"),
        ),
    ] {
        judged::<VirtualMachineImage>(&scope, spec, said).await?;
    }
    scope.close().await
}

#[tokio::test]
async fn the_source_cannot_be_changed() -> anyhow::Result<()> {
    let scope = scope("immutable").await?;
    let api = scope.api::<VirtualMachineImage>();
    let image: VirtualMachineImage = serde_yaml::from_str(EXAMPLE)?;
    api.create(&PostParams::default(), &image).await?;
    for (change, said) in [
        (
            json!({"spec": {"source": {"http": "http://example.org/other"}}}),
            "source is immutable",
        ),
        (
            json!({"spec": {"storageClassName": "other"}}),
            "storageClassName is immutable",
        ),
        (
            json!({"spec": {"storageClassName": null}}),
            "storageClassName is immutable",
        ),
        (
            json!({"spec": {"pvc": {"volumeMode": "Filesystem"}}}),
            "pvc is immutable",
        ),
        (
            json!({"spec": {"source": {"secretRef": {"name": "login"}}}}),
            "source is immutable",
        ),
        (
            json!({"spec": {"preallocation": true}}),
            "preallocation is immutable",
        ),
    ] {
        unchanged::<VirtualMachineImage>(&scope, "ubuntu18.04", change, said).await?;
    }
    // Whom it is shared with is its owner's to change his mind about.
    for sharing in [json!({"namespaces": ["team", "*"]}), json!(null)] {
        let change = json!({"spec": {"sharedWith": sharing}});
        api.patch(
            "ubuntu18.04",
            &PatchParams::default(),
            &Patch::Merge(&change),
        )
        .await?;
    }
    scope.close().await
}

/// The server refuses to make this change to the `K` called `name`, and says
/// `said`.
async fn unchanged<K>(scope: &Scope, name: &str, change: Value, said: &str) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let patch = Patch::Merge(&change);
    let parameters = PatchParams::default();
    match scope.api::<K>().patch(name, &parameters, &patch).await {
        Err(kube::Error::Api(status)) => {
            assert!(
                status.message.contains(said),
                "{change}: {}",
                status.message
            );
            Ok(())
        }
        other => anyhow::bail!("{change}: {other:?}"),
    }
}
