//! The API server keeps everybody but the coordinator off the claims that are
//! the system's own, and off a volume that is being rolled back; the
//! coordinator keeps an image's claim while it is cloned.

mod rollback;

use std::time::Duration;

use e2e::cluster::{Cluster, SYSTEM_NAMESPACE, Scope};
use e2e::disk::{self, Disk, Recipe};
use e2e::source::{Server, stage};
use e2e::wait::{Seen, until, when};
use e2e::{image, reader, system};
use hypercloud_api::{VirtualMachineImage, names};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;
/// How long the API server may take to know a policy or its parameters.
const KNOWN: Duration = Duration::from_secs(60);

/// A pod's specification that mounts `claim` and is welcome under the
/// strictest profile.
fn mounting(claim: &str) -> Value {
    json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 107, "seccompProfile": {"type": "RuntimeDefault"}
        },
        "containers": [{
            "name": "user",
            "image": system::shell_image(),
            "command": ["/bin/sh"],
            "volumeDevices": [{"name": "root", "devicePath": "/dev/root-disk"}],
            "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}
            }
        }],
        "volumes": [
            {"name": "scratch", "emptyDir": {}},
            {"name": "root", "persistentVolumeClaim": {"claimName": claim}}
        ]
    })
}

fn pod(claim: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"}, "spec": mounting(claim)})
}

fn deployment(claim: &str) -> Value {
    workload("apps/v1", "Deployment", claim)
}

/// Something of this kind whose pods mount `claim`.
fn workload(version: &str, kind: &str, claim: &str) -> Value {
    let labels = json!({"app": "user"});
    let mut pod = mounting(claim);
    let is_job = matches!(kind, "Job" | "CronJob");
    if !is_job {
        pod["restartPolicy"] = json!("Always");
    }
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let spec = match kind {
        "CronJob" => {
            json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}})
        }
        "Job" => json!({"template": template}),
        "ReplicationController" => json!({"selector": labels, "template": template}),
        "StatefulSet" => {
            json!({"serviceName": "user", "selector": {"matchLabels": labels}, "template": template})
        }
        _ => json!({"selector": {"matchLabels": labels}, "template": template}),
    };
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": "user"}, "spec": spec})
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
            "storageClassName": system::storage_class(),
            "resources": {"requests": {"storage": "64Mi"}}
        }
    })
}

/// Asks the server to judge an object without keeping it; what it said
/// against it, if anything.
async fn refusal(
    client: &Client,
    namespace: &str,
    object: Value,
) -> anyhow::Result<Option<String>> {
    let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = version.rsplit_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match api
        .create(&parameters, &serde_json::from_value(object)?)
        .await
    {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 403, "{kind}: {}", status.message);
            Ok(Some(status.message))
        }
        Err(error) => Err(error.into()),
    }
}

/// The server refuses `object` to `client`, and says every one of `said`.
async fn refused(
    client: &Client,
    scope: &Scope,
    object: Value,
    said: &[&str],
) -> anyhow::Result<()> {
    let answer = refusal(client, &scope.namespace, object.clone()).await?;
    let Some(answer) = answer else {
        anyhow::bail!("not refused: {object}");
    };
    for words in said {
        assert!(answer.contains(words), "{}: {answer}", object["kind"]);
    }
    Ok(())
}

/// The server takes `object` from `client`.
async fn allowed(client: &Client, scope: &Scope, object: Value) -> anyhow::Result<()> {
    let answer = refusal(client, &scope.namespace, object.clone()).await?;
    anyhow::ensure!(answer.is_none(), "refused: {object}: {answer:?}");
    Ok(())
}

/// A Ready image called `base`, and what it was made from.
async fn based(test: &str) -> anyhow::Result<(Scope, Server, Disk)> {
    let (scope, server) = stage(test).await?;
    let disk = Recipe {
        virtual_size: 64 * MIB,
        data: 16 * MIB,
        convert: disk::ZLIB,
    }
    .make()?;
    let address = server.file("disk", &disk.image)?;
    image::create(&scope, "base", &address.url, "Block").await?;
    image::ready(&scope, "base", image::IMPORT).await?;
    Ok((scope, server, disk))
}

/// Makes a claim called `name` that clones that of the image `base`, in
/// `class`.
async fn clone(scope: &Scope, name: &str, class: &str) -> anyhow::Result<()> {
    let image = scope.api::<VirtualMachineImage>().get("base").await?;
    let mut clone = claim(name);
    clone["metadata"]["labels"] =
        json!({(names::LABEL_SOURCE_IMAGE_UID): image.uid().unwrap_or_default()});
    clone["spec"]["storageClassName"] = json!(class);
    clone["spec"]["dataSource"] =
        json!({"kind": "PersistentVolumeClaim", "name": names::image_claim("base")});
    let claims = scope.api::<PersistentVolumeClaim>();
    claims
        .create(&PostParams::default(), &serde_json::from_value(clone)?)
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_images_claim_is_mounted_by_nobody_and_cloned_by_anybody() -> anyhow::Result<()> {
    let (scope, _server, disk) = based("mounted").await?;
    let admin = scope.cluster.client.clone();
    let base = names::image_claim("base");
    let said = [base.as_str(), "make a VirtualMachinePvc of the image"];
    refused(&admin, &scope, pod(&base), &said).await?;
    for (version, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("v1", "ReplicationController"),
    ] {
        refused(&admin, &scope, workload(version, kind, &base), &said).await?;
        allowed(&admin, &scope, workload(version, kind, "root")).await?;
    }
    for claim in ["vmprime-0", "vmrollback-0", "vmexport-0"] {
        let said = [claim, "mount the claim of the disk itself"];
        refused(&admin, &scope, pod(claim), &said).await?;
    }

    clone(&scope, "root", &system::storage_class()).await?;
    let sha256 = reader::block_sha256(&scope, "root", disk.virtual_size).await?;
    assert_eq!(sha256, disk.sha256);
    let scribble = "head -c 1048576 /dev/urandom > /dev/volume";
    reader::run(&scope, "root", "Block", scribble).await?;
    let sha256 = reader::block_sha256(&scope, "root", disk.virtual_size).await?;
    assert_ne!(sha256, disk.sha256, "the clone was written to");
    let sha256 = reader::block_sha256(&scope, &base, disk.virtual_size).await?;
    assert_eq!(sha256, disk.sha256, "the image was not");
    image::delete(&scope, "base").await?;
    scope.close().await
}

#[tokio::test]
async fn a_workload_from_before_can_be_changed_but_not_turned_to_an_image() -> anyhow::Result<()> {
    let scope = Cluster::connect().await?.scope("turned").await?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
    let client = scope.cluster.client.clone();
    let api: Api<DynamicObject> = Api::namespaced_with(client, &scope.namespace, &resource);
    let mut sleeping = deployment("root");
    sleeping["spec"]["replicas"] = json!(0);
    let object = serde_json::from_value(sleeping)?;
    api.create(&PostParams::default(), &object).await?;
    let turned = |claim: &str| {
        let volumes = json!([{"name": "root", "persistentVolumeClaim": {"claimName": claim}}]);
        Patch::Strategic(json!({"spec": {"template": {"spec": {"volumes": volumes}}}}))
    };
    let parameters = PatchParams::default();
    api.patch("user", &parameters, &turned("data")).await?;
    match api.patch("user", &parameters, &turned("vmim-base")).await {
        Err(kube::Error::Api(status)) => {
            assert!(
                status.message.contains("holds an image"),
                "{}",
                status.message
            );
        }
        other => panic!("turned to an image: {other:?}"),
    }
    scope.close().await
}

#[tokio::test]
async fn no_container_is_added_to_a_pod_on_a_reserved_claim() -> anyhow::Result<()> {
    let scope = Cluster::connect().await?.scope("added").await?;
    let pods = scope.api::<Pod>();
    let mut added = mounting("root")["containers"][0].clone();
    added["name"] = json!("added");
    let patch = Patch::Strategic(json!({"spec": {"ephemeralContainers": [added]}}));
    let parameters = PatchParams::default().dry_run();
    for (name, claim) in [
        ("user", "root"),
        ("image", "vmim-base"),
        ("disk", "vmprime-0"),
        ("rollback", "vmrollback-0"),
        ("export", "vmexport-0"),
    ] {
        // It waits for a claim that nobody makes.
        let mut waiting = pod(claim);
        waiting["metadata"]["name"] = json!(name);
        let maker = scope.pods_on(claim).await?;
        let object = serde_json::from_value(waiting)?;
        maker.create(&PostParams::default(), &object).await?;
        let answer = pods.patch_subresource("ephemeralcontainers", name, &parameters, &patch);
        match answer.await {
            Ok(_) => assert_eq!(claim, "root"),
            Err(kube::Error::Api(status)) => {
                let said = format!("no container can be added to a pod on the claim {claim}");
                assert!(status.message.contains(&said), "{}", status.message);
            }
            Err(error) => return Err(error.into()),
        }
    }
    scope.close().await
}

#[tokio::test]
async fn reserved_names_are_for_the_coordinators_claims() -> anyhow::Result<()> {
    let scope = Cluster::connect().await?.scope("reserved").await?;
    let admin = scope.cluster.client.clone();
    let coordinator = system::coordinator(&scope.cluster).await?;
    for prefix in names::RESERVED_CLAIM_PREFIXES {
        let name = format!("{prefix}x");
        refused(
            &admin,
            &scope,
            claim(&name),
            &[&name, "choose another name"],
        )
        .await?;
        let mut generated = claim("");
        generated["metadata"] = json!({"generateName": prefix});
        refused(&admin, &scope, generated, &["choose another name"]).await?;
        allowed(&coordinator, &scope, claim(&name)).await?;
    }
    allowed(&admin, &scope, claim("vmimage")).await?;
    allowed(&admin, &scope, claim("my-vmim-x")).await?;
    scope.close().await
}

#[tokio::test]
async fn who_looks_like_the_coordinator_is_not_the_coordinator() -> anyhow::Result<()> {
    let scope = Cluster::connect().await?.scope("impostor").await?;
    let post = PostParams::default();
    // Its name and its labels, in a namespace of one's own.
    let labels = json!({
        (names::LABEL_MANAGED_BY): names::MANAGED_BY,
        (names::LABEL_ROLE): names::ROLE_HOLDER,
        "app.kubernetes.io/part-of": "hypercloud-storage",
        "app.kubernetes.io/component": "coordinator"
    });
    let account: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": "coordinator", "labels": labels}}))?;
    scope.api().create(&post, &account).await?;
    let role: Role = serde_json::from_value(json!({
        "metadata": {"name": "maker"},
        "rules": [{"apiGroups": [""], "resources": ["pods", "persistentvolumeclaims"],
            "verbs": ["create"]}]
    }))?;
    scope.api().create(&post, &role).await?;
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "maker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maker"},
        "subjects": [{"kind": "ServiceAccount", "name": "coordinator",
            "namespace": scope.namespace}]
    }))?;
    scope.api().create(&post, &binding).await?;

    let impostor = scope
        .cluster
        .account(&scope.namespace, "coordinator")
        .await?;
    // Authorization learns of the role in its own time.
    until("the impostor may make pods", KNOWN, || async {
        let answer = refusal(&impostor, &scope.namespace, pod("root")).await?;
        Ok(when(answer.is_none(), answer))
    })
    .await?;
    let mut holder = pod("vmim-base");
    holder["metadata"] = json!({"name": names::image_holder("base", 0), "labels": labels});
    refused(&impostor, &scope, holder.clone(), &["holds an image"]).await?;
    refused(
        &impostor,
        &scope,
        claim("vmim-base"),
        &["choose another name"],
    )
    .await?;
    // The account itself may, but for nothing that goes on making pods.
    let coordinator = system::coordinator(&scope.cluster).await?;
    allowed(&coordinator, &scope, holder).await?;
    scope.close().await
}

/// A policy is checked once, when it is made; the parameters of one may not be
/// known to the server then. So it is a copy that is checked, which binds to
/// nothing.
#[tokio::test]
async fn the_policies_are_understood_by_the_api_server() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(cluster.client.clone());
    for name in ["mounts", "claims", "rollbacks", "machine-rollbacks"] {
        let policy = policies.get(&format!("{SYSTEM_NAMESPACE}-{name}")).await?;
        let mut copy = ValidatingAdmissionPolicy::default();
        copy.metadata.generate_name = Some(format!("e2e-{name}-"));
        copy.spec = policy.spec;
        let copy = policies
            .create(&PostParams::default(), &copy)
            .await?
            .name_any();
        let status = until("the policy was checked", KNOWN, || async {
            let policy = policies.get(&copy).await?;
            let status = policy.status.unwrap_or_default();
            Ok(
                if status.observed_generation == policy.metadata.generation {
                    Seen::Done(status)
                } else {
                    Seen::NotYet(format!("{name}: {status:?}"))
                },
            )
        })
        .await;
        policies.delete(&copy, &DeleteParams::default()).await?;
        let checked = status?.type_checking.unwrap_or_default();
        let warnings = checked.expression_warnings.unwrap_or_default();
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_deleted_image_waits_for_its_clones() -> anyhow::Result<()> {
    let (scope, _server, disk) = based("cloned").await?;
    let claims = scope.api::<PersistentVolumeClaim>();
    // One that is never made, and one that is made while the image is deleted.
    clone(&scope, "never", "there-is-no-such-class").await?;
    let images = scope.api::<VirtualMachineImage>();
    images.delete("base", &DeleteParams::default()).await?;
    let message = image::waiting(&scope, "base", "CloningUnderWay").await?;
    assert!(message.contains(": never;"), "{message}");
    clone(&scope, "root", &system::storage_class()).await?;
    let sha256 = reader::block_sha256(&scope, "root", disk.virtual_size).await?;
    assert_eq!(sha256, disk.sha256);
    let base = claims.get(&names::image_claim("base")).await?;
    assert_eq!(base.metadata.deletion_timestamp, None);

    claims.delete("never", &DeleteParams::default()).await?;
    // It is told of the end rather than that it looks now and then.
    let soon = Duration::from_secs(10);
    until("the image's claim is asked to go", soon, || async {
        let base = claims.get_opt(&names::image_claim("base")).await?;
        let stays = base.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none());
        Ok(when(!stays, "the claim stays"))
    })
    .await?;
    until("the image is gone", image::DELETION, || async {
        let found = images.get_opt("base").await?;
        Ok(when(found.is_none(), found.map(|image| image.status)))
    })
    .await?;
    scope.close().await
}
