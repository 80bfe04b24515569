//! The rules of a `HyperCloudStorage`.
//!
//! They are met on a definition with the same schema in a group of the test's
//! own, so that nothing is installed, and no webhook asked.

mod network;

use super::*;
use e2e::wait::{until, when};
use hypercloud_api::HyperCloudStorage;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams};
use kube::{Client, CustomResourceExt, ResourceExt};
use std::time::Duration;

/// A definition with the rules, and objects of it.
struct Rules {
    definitions: Api<CustomResourceDefinition>,
    name: String,
    storages: Api<DynamicObject>,
    resource: ApiResource,
}

impl Rules {
    async fn install(test: &str) -> anyhow::Result<Self> {
        let client: Client = Cluster::connect().await?.client;
        let group = format!("{test}.storage-rules.example");
        let mut definition = HyperCloudStorage::crd();
        let name = format!("{}.{group}", definition.spec.names.plural);
        definition.metadata.name = Some(name.clone());
        definition.spec.group.clone_from(&group);
        definition.spec.names.short_names = None;
        definition.spec.names.categories = None;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        // What a run that was killed left.
        let _ = definitions.delete(&name, &DeleteParams::default()).await;
        until(
            "the definition is made",
            Duration::from_secs(30),
            || async {
                let made = definitions
                    .create(&PostParams::default(), &definition)
                    .await;
                Ok(when(made.is_ok(), made))
            },
        )
        .await?;
        let mut resource = ApiResource::erase::<HyperCloudStorage>(&());
        resource.api_version = format!("{group}/v1alpha1");
        resource.group = group;
        let rules = Self {
            storages: Api::all_with(client, &resource),
            definitions,
            name,
            resource,
        };
        until("storages can be made", Duration::from_secs(30), || async {
            let judged = rules.refusal(spec(json!({}), json!({}))).await?;
            Ok(when(judged.is_none(), judged))
        })
        .await?;
        Ok(rules)
    }

    fn storage(&self, name: &str, spec: Value) -> DynamicObject {
        DynamicObject::new(name, &self.resource).data(json!({"spec": spec}))
    }

    /// What the server says against a storage of this specification.
    async fn refusal(&self, spec: Value) -> anyhow::Result<Option<String>> {
        let storage = self.storage("hypercloud", spec);
        said(self.storages.create(&dry(), &storage).await)
    }

    /// What the server says against this change of the storage that is there.
    async fn change(&self, change: Value) -> anyhow::Result<Option<String>> {
        let by = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let change = Patch::Merge(json!({"spec": change}));
        said(self.storages.patch("hypercloud", &by, &change).await)
    }

    async fn close(self) -> anyhow::Result<()> {
        let deletion = DeleteParams::default();
        self.definitions.delete(&self.name, &deletion).await?;
        Ok(())
    }
}

fn dry() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

fn said(answer: Result<DynamicObject, kube::Error>) -> anyhow::Result<Option<String>> {
    match answer {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message)),
        Err(error) => Err(error.into()),
    }
}

/// A specification that is good, but for `storage` and `more`.
fn spec(storage: Value, more: Value) -> Value {
    let mut spec = json!({"storage": {"replicas": 3, "nodes": [
        {"hostname": "a", "devices": ["/dev/sda"]}]}});
    let fill = |object: &mut Value, fields: Value| {
        for (key, value) in fields.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
    };
    fill(&mut spec["storage"], storage);
    fill(&mut spec, more);
    spec
}

fn nodes(count: usize) -> Value {
    let node = |n| json!({"hostname": format!("n{n}"), "devices": ["/dev/sda"]});
    (0..count).map(node).collect()
}

fn check(spec: &Value, said: Option<&str>, answer: &Option<String>) -> anyhow::Result<()> {
    match (said, answer) {
        (None, None) => Ok(()),
        (Some(said), Some(answer)) if answer.contains(said) => Ok(()),
        _ => anyhow::bail!("{spec}: expected {said:?}, the server answered {answer:?}"),
    }
}

#[tokio::test]
async fn what_a_storage_cannot_be_is_refused() -> anyhow::Result<()> {
    let rules = Rules::install("made").await?;
    let none = || json!({});
    let device = |device: &str| json!({"nodes": [{"hostname": "a", "devices": [device]}]});
    let mirror = |mirror: Value| spec(none(), json!({"manifests": mirror}));
    let sha256 = "0f".repeat(32);
    let long = "a".repeat(64);
    for (spec, said) in [
        (json!({}), Some("spec.storage: Required")),
        (
            json!({"storage": {"nodes": nodes(1)}}),
            Some("replicas: Required"),
        ),
        (json!({"storage": {"replicas": 3}}), Some("nodes: Required")),
        (
            spec(json!({"replicas": 0}), none()),
            Some("spec.storage.replicas"),
        ),
        (
            spec(json!({"replicas": 11}), none()),
            Some("spec.storage.replicas"),
        ),
        (
            spec(json!({"replicas": 1}), none()),
            Some("a lost device is lost data"),
        ),
        (
            spec(json!({"replicas": 1, "allowSingleReplica": true}), none()),
            None,
        ),
        (
            spec(json!({"nodes": []}), none()),
            Some("spec.storage.nodes"),
        ),
        (spec(json!({"nodes": nodes(256)}), none()), None),
        (
            spec(json!({"nodes": nodes(257)}), none()),
            Some("spec.storage.nodes"),
        ),
        (
            spec(
                json!({"nodes": [{"hostname": "a", "devices": ["/dev/sda"]},
                {"hostname": "a", "devices": ["/dev/sdb"]}]}),
                none(),
            ),
            Some("nodes[1]: Duplicate value"),
        ),
        (
            spec(
                json!({"nodes": [{"hostname": "a", "devices": ["/dev/sda", "/dev/sda"]}]}),
                none(),
            ),
            Some("devices[1]: Duplicate value"),
        ),
        (
            spec(json!({"nodes": [{"hostname": "a", "devices": []}]}), none()),
            Some("nodes[0].devices"),
        ),
        (
            spec(
                json!({"nodes": [{"hostname": long, "devices": ["sda"]}]}),
                none(),
            ),
            Some("nodes[0].hostname"),
        ),
        (spec(device("sda"), none()), None),
        (
            spec(device("/dev/disk/by-id/wwn-0x5000c500a1b2c3d4"), none()),
            None,
        ),
        (spec(device(""), none()), Some("devices[0]")),
        (spec(device("/sda"), none()), Some("devices[0]")),
        (spec(device("/dev/sd a"), none()), Some("devices[0]")),
        (spec(json!({"mons": 1}), none()), None),
        (
            spec(json!({"mons": 2, "nodes": nodes(3)}), none()),
            Some("mons must be odd"),
        ),
        (
            spec(json!({"mons": 3}), none()),
            Some("at least as many nodes as mons"),
        ),
        (spec(json!({"mons": 3, "nodes": nodes(3)}), none()), None),
        (spec(json!({"failureDomain": "OSD"}), none()), None),
        (
            spec(json!({"failureDomain": "rack"}), none()),
            Some("failureDomain"),
        ),
        (
            spec(json!({"dataDirHostPath": "/etc/ceph/data"}), none()),
            Some("Rook takes no dataDirHostPath"),
        ),
        (
            spec(json!({"dataDirHostPath": "/rook"}), none()),
            Some("Rook takes no dataDirHostPath"),
        ),
        (spec(json!({"dataDirHostPath": "/rooks"}), none()), None),
        (
            spec(json!({"dataDirHostPath": "rook"}), none()),
            Some("dataDirHostPath"),
        ),
        (
            spec(
                json!({"resources": {"mon": {"requests": {"cpu": "1", "memory": "1Gi"}}}}),
                none(),
            ),
            None,
        ),
        (
            spec(json!({"resources": {"monitor": {}}}), none()),
            Some("resources are those of mon"),
        ),
        (
            spec(
                json!({"network": {"publicRanges": ["10.1.0.0/16"]}}),
                none(),
            ),
            Some("go with hostNetwork"),
        ),
        (
            spec(
                json!({"network": {"hostNetwork": true, "publicRanges": ["10.1.0.0/16"]}}),
                none(),
            ),
            None,
        ),
        (spec(json!({"removal": "Drop"}), none()), Some("removal")),
        (
            spec(
                json!({"health": {"warnings": "Tolerate", "ignore": ["MON_DISK_LOW"]}}),
                none(),
            ),
            None,
        ),
        (
            spec(json!({"objectStore": {"instances": 0}}), none()),
            Some("instances"),
        ),
        (
            spec(none(), json!({"versions": {"rook": "1.20"}})),
            Some("spec.versions.rook"),
        ),
        (
            spec(
                none(),
                json!({"versions": {"rook": "1.20.6", "ceph": "20.2.4"}}),
            ),
            None,
        ),
        (spec(none(), json!({"cdi": {}})), None),
        (spec(none(), json!({"cdi": {"sha256": sha256}})), None),
        (
            spec(none(), json!({"cdi": {"sha256": "0f"}})),
            Some("spec.cdi.sha256"),
        ),
        (
            mirror(none()),
            Some("exactly one of http, configMaps and folder"),
        ),
        (
            mirror(json!({"folder": "/a", "configMaps": ["b"]})),
            Some("exactly one of http"),
        ),
        (mirror(json!({"folder": "/a/b"})), None),
        (
            mirror(json!({"folder": "/a/../b"})),
            Some("must not lead out"),
        ),
        (mirror(json!({"configMaps": ["a", "b"]})), None),
        (
            mirror(json!({"http": {"url": "http://[2001:db8::1]:8080/m"}})),
            None,
        ),
        (
            mirror(json!({"http": {"url": "ftp://mirror"}})),
            Some("absolute http:// or https://"),
        ),
        (
            mirror(json!({"http": {"url": "mirror"}})),
            Some("absolute http:// or https://"),
        ),
        (
            spec(
                none(),
                json!({"registries": [{"from": "quay.io/ceph", "to": "r.example:5000/c"}]}),
            ),
            None,
        ),
        (
            spec(
                none(),
                json!({"registries": [{"from": "a", "to": "b"}, {"from": "a", "to": "c"}]}),
            ),
            Some("registries[1]: Duplicate value"),
        ),
        (
            spec(none(), json!({"registries": [{"from": "a/", "to": "b"}]})),
            Some("registries[0].from"),
        ),
        (
            spec(none(), json!({"cleanup": {"confirmation": "yes"}})),
            Some("cleanup.confirmation"),
        ),
        (
            spec(
                none(),
                json!({"cleanup": {"confirmation": "yes-really-destroy-data",
                "sanitize": "Complete", "definitions": "Remove"}}),
            ),
            None,
        ),
    ] {
        let answer = rules.refusal(spec.clone()).await?;
        check(&spec, said, &answer)?;
    }
    let other = rules.storage("other", spec(none(), none()));
    let answer = said(rules.storages.create(&dry(), &other).await)?;
    check(&json!("other"), Some("its name is hypercloud"), &answer)?;
    rules.close().await
}

#[tokio::test]
async fn what_is_settled_stays() -> anyhow::Result<()> {
    let rules = Rules::install("changed").await?;
    let made = rules.storage("hypercloud", spec(json!({"nodes": nodes(3)}), json!({})));
    rules.storages.create(&PostParams::default(), &made).await?;
    for (change, said) in [
        (
            json!({"storage": {"replicas": 2}}),
            Some("replicas can be raised, not lowered"),
        ),
        (json!({"storage": {"replicas": 4}}), None),
        (
            json!({"storage": {"failureDomain": "OSD"}}),
            Some("failureDomain is settled"),
        ),
        // What was not said is what was said of it.
        (json!({"storage": {"failureDomain": "Host"}}), None),
        (
            json!({"storage": {"dataDirHostPath": "/data"}}),
            Some("dataDirHostPath is settled"),
        ),
        (
            json!({"storage": {"dataDirHostPath": "/var/lib/rook"}}),
            None,
        ),
        (
            json!({"storage": {"network": {"hostNetwork": true}}}),
            Some("network.hostNetwork is settled"),
        ),
        (
            json!({"storage": {"network": {"hostNetwork": true, "publicRanges": ["10.1.0.0/16"]}}}),
            Some("network.publicRanges are settled"),
        ),
        (
            json!({"storage": {"network": {"hostNetwork": true, "clusterRanges": ["10.1.0.0/16"]}}}),
            Some("network.clusterRanges are settled"),
        ),
        (
            json!({"storage": {"network": {"ipFamily": "IPv6"}}}),
            Some("network.ipFamily is settled"),
        ),
        (
            json!({"storage": {"network": {"hostNetwork": false, "ipFamily": "IPv4"}}}),
            None,
        ),
        (
            json!({"storage": {"network": {"encryption": true, "compression": true,
                "requireMsgr2": true}}}),
            None,
        ),
        (json!({"storage": {"nodes": nodes(4), "mons": 3}}), None),
        (
            json!({"storage": {"nodes": nodes(2), "mons": 3}}),
            Some("at least as many nodes"),
        ),
        (json!({"storage": {"removal": "PurgeOsds"}}), None),
        (json!({"versions": {"rook": "1.19.10"}}), None),
        (
            json!({"cleanup": {"confirmation": "yes-really-destroy-data"}}),
            None,
        ),
    ] {
        let answer = rules.change(change.clone()).await?;
        check(&change, said, &answer)?;
    }
    rules.close().await
}

/// Everything that can be said comes back as it was said.
#[tokio::test]
async fn nothing_is_lost_or_added() -> anyhow::Result<()> {
    let rules = Rules::install("kept").await?;
    let whole = spec(
        json!({
            "nodes": nodes(3), "mons": 3, "failureDomain": "Host", "allowSingleReplica": false,
            "dataDirHostPath": "/var/lib/rook", "removal": "Refuse", "toolbox": true,
            "health": {"warnings": "Tolerate", "ignore": ["MON_DISK_LOW"]},
            "network": {"hostNetwork": true, "publicRanges": ["10.1.0.0/16"],
                "clusterRanges": ["10.2.0.0/16"], "encryption": true, "compression": false,
                "requireMsgr2": true, "ipFamily": "IPv4"},
            "resources": {"osd": {"requests": {"cpu": "500m"}, "limits": {"memory": "4Gi"}}},
            "block": {"defaultClass": true, "parameters": {"imageFeatures": "layering"}},
            "objectStore": {"enabled": true, "instances": 2,
                "resources": {"limits": {"memory": "2Gi"}}},
        }),
        json!({
            "versions": {"rook": "1.20.6", "ceph": "20.2.4"},
            "cdi": {"version": "1.65.0", "sha256": "0f".repeat(32)},
            "manifests": {"http": {"url": "https://mirror.example/m",
                "caConfigMap": {"name": "mirror-ca"}}},
            "registries": [{"from": "docker.io", "to": "registry.example/docker"}],
            "cleanup": {"confirmation": "yes-really-destroy-data", "sanitize": "Complete",
                "definitions": "Remove"},
        }),
    );
    for written in [spec(json!({}), json!({})), whole] {
        let storage = rules.storage("hypercloud", written.clone());
        let kept = rules.storages.create(&dry(), &storage).await?;
        assert_eq!(kept.data["spec"], written);
        // And as the coordinator reads and writes it.
        let read: hypercloud_api::HyperCloudStorageSpec = serde_json::from_value(written.clone())?;
        assert_eq!(serde_json::to_value(&read)?, written);
    }
    rules.close().await
}

/// What the cluster has is what these tests are of.
#[tokio::test]
async fn the_definition_is_installed_as_it_is_built() -> anyhow::Result<()> {
    let client = Cluster::connect().await?.client;
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let own = HyperCloudStorage::crd();
    let installed = definitions.get(&own.name_any()).await?;
    let schema = |definition: &CustomResourceDefinition| {
        let versions = definition.spec.versions.iter();
        serde_json::to_value(versions.map(|v| v.schema.clone()).collect::<Vec<_>>())
    };
    assert_eq!(schema(&installed)?, schema(&own)?);
    Ok(())
}
