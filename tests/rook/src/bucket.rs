//! Claims of buckets, as the library does it that Rook uses: an ObjectBucket,
//! and beside the claim a ConfigMap and a Secret of its name.

use serde_json::{Value, json};

use crate::api;
use crate::operator::{Look, Operator};
use crate::orders::Orders;

const FINALIZER: &str = "objectbucket.io/finalizer";

/// Does the next small thing for each claim of ours.
pub async fn claims(operator: &Operator, look: &Look, orders: &Orders) -> anyhow::Result<()> {
    for claim in &look.claims {
        let is_ours = if api::is_going(claim) {
            api::has_finalizer(claim, FINALIZER)
        } else {
            is_ours(operator, claim).await?
        };
        if !is_ours {
            continue;
        }
        if api::is_going(claim) {
            if orders.deletes {
                leave(operator, claim).await?;
            }
        } else {
            provide(operator, claim, look, orders).await?;
        }
    }
    Ok(())
}

/// Whether the claim's class is one of this operator's.
async fn is_ours(operator: &Operator, claim: &Value) -> kube::Result<bool> {
    let Some(class) = claim["spec"]["storageClassName"].as_str() else {
        return Ok(false);
    };
    let class = api::get(&operator.client, api::CLASS, None, class).await?;
    let provisioner = format!("{}.ceph.rook.io/bucket", operator.namespace);
    Ok(class.is_some_and(|class| class["provisioner"] == provisioner.as_str()))
}

fn bucket_name(claim: &Value) -> String {
    let (namespace, name) = (api::text(claim, "namespace"), api::text(claim, "name"));
    format!("obc-{namespace}-{name}")
}

async fn provide(
    operator: &Operator,
    claim: &Value,
    look: &Look,
    orders: &Orders,
) -> anyhow::Result<()> {
    let client = &operator.client;
    let store = look
        .stores
        .iter()
        .find(|store| store["status"]["phase"] == "Ready");
    let Some(store) = store else {
        return Ok(());
    };
    let is_there = claim["status"]["phase"] == orders.bucket.as_str();
    if is_there || api::hold(client, api::CLAIM, claim, FINALIZER).await? {
        return Ok(());
    }
    if orders.bucket == "Bound" {
        bind(operator, claim, store, orders).await?;
        let named = bucket_name(claim);
        if claim["spec"]["objectBucketName"] != named.as_str() {
            let mut changed = claim.clone();
            changed["spec"]["objectBucketName"] = json!(named);
            api::replace(client, api::CLAIM, &changed).await?;
            return Ok(());
        }
    }
    let mut changed = claim.clone();
    changed["status"] = json!({"phase": orders.bucket});
    api::replace_status(client, api::CLAIM, &changed).await?;
    Ok(())
}

async fn bind(
    operator: &Operator,
    claim: &Value,
    store: &Value,
    orders: &Orders,
) -> kube::Result<()> {
    let client = &operator.client;
    let (namespace, name) = (api::text(claim, "namespace"), api::text(claim, "name"));
    let at = &orders.store;
    let host = at
        .host
        .clone()
        .unwrap_or_else(|| operator.gateway_host(api::text(store, "name")));
    let port = at.port.clone().unwrap_or_else(|| "80".to_owned());
    let bucket = at
        .name
        .clone()
        .or_else(|| claim["spec"]["bucketName"].as_str().map(str::to_owned))
        .unwrap_or_else(|| bucket_name(claim));
    let bound = json!({
        "apiVersion": "objectbucket.io/v1alpha1", "kind": "ObjectBucket",
        "metadata": {"name": bucket_name(claim), "finalizers": [FINALIZER]},
        "spec": {
            "storageClassName": claim["spec"]["storageClassName"],
            "reclaimPolicy": "Delete",
            "claimRef": {
                "apiVersion": "objectbucket.io/v1alpha1", "kind": "ObjectBucketClaim",
                "name": name, "namespace": namespace, "uid": claim["metadata"]["uid"],
            },
            "endpoint": {
                "bucketHost": host, "bucketPort": port.parse::<u16>().unwrap_or(80),
                "bucketName": bucket, "region": "", "subRegion": "",
            },
        },
    });
    api::make(client, api::BUCKET, &bound).await?;
    let metadata = json!({
        "name": name, "namespace": namespace, "finalizers": [FINALIZER],
        "labels": {"bucket-provisioner": format!("{}.ceph.rook.io-bucket", operator.namespace)},
        "ownerReferences": [{
            "apiVersion": "objectbucket.io/v1alpha1", "kind": "ObjectBucketClaim",
            "name": name, "uid": claim["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
        "data": {
            "BUCKET_HOST": host, "BUCKET_PORT": port, "BUCKET_NAME": bucket,
            "BUCKET_REGION": "", "BUCKET_SUBREGION": "",
        },
    });
    api::make(client, api::CONFIG_MAP, &map).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata,
        "stringData": {
            "AWS_ACCESS_KEY_ID": at.key.as_deref().unwrap_or("simulated"),
            "AWS_SECRET_ACCESS_KEY": at.secret.as_deref().unwrap_or("simulated"),
        },
    });
    api::make(client, api::SECRET, &secret).await
}

/// Takes away what was made for a claim, and lets it go.
async fn leave(operator: &Operator, claim: &Value) -> kube::Result<()> {
    let client = &operator.client;
    let (namespace, name) = (api::text(claim, "namespace"), api::text(claim, "name"));
    let bucket = bucket_name(claim);
    for (kind, scope, name) in [
        (api::SECRET, Some(namespace), name),
        (api::CONFIG_MAP, Some(namespace), name),
        (api::BUCKET, None, bucket.as_str()),
    ] {
        if let Some(object) = api::get(client, kind, scope, name).await? {
            api::release(client, kind, &object, FINALIZER).await?;
            api::delete(client, kind, scope, name).await?;
        }
    }
    api::release(client, api::CLAIM, claim, FINALIZER).await
}
