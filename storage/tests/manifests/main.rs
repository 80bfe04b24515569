//! The real manifests of every supported release, where they lie beside the
//! project: their checksums, what is made of them, and whether what is made of
//! the specification is what Rook's definitions take.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../tests/mirror.rs"]
mod mirror;
mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use hypercloud_api::{HyperCloudStorage, HyperCloudStorageSpec, RegistryMirror, SettledDevice};
use hypercloud_inventory::rook::Storage;
use hypercloud_storage::device::Settlement;
use hypercloud_storage::kind::{Kind, Which};
use hypercloud_storage::manifest::source::{Place, Wanted};
use hypercloud_storage::manifest::{self, image};
use hypercloud_storage::object::{Desired, Keep, Seen};
use hypercloud_storage::render::{Ingredients, cluster, files, objects};
use hypercloud_storage::stage::{self, Ready, STAGES, Stage};
use hypercloud_storage::version::table::{FILES, Project, ROOK, RookRelease};
use hypercloud_storage::version::{Running, Target, Version, target};
use serde_json::{Value, json};

const SMALLEST: &str = include_str!("../examples/smallest.yaml");
const EVERYTHING: &str = include_str!("../examples/everything.yaml");

fn spec(text: &str) -> HyperCloudStorageSpec {
    serde_yaml::from_str::<HyperCloudStorage>(text)
        .unwrap()
        .spec
}

fn read(mirror: &Path, wanted: &Wanted) -> Vec<u8> {
    // CDI's release file cannot be had byte for byte.
    let path = match wanted.project {
        Project::Cdi => "cdi/derived-cdi-operator-v1.66.0.yaml".to_owned(),
        _ => wanted.path(),
    };
    fs::read(mirror.join(&path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every stage's objects for a release.
fn built(
    mirror: &Path,
    spec: &HyperCloudStorageSpec,
    target: &Target,
) -> BTreeMap<&'static str, Vec<Desired>> {
    let mut checked = BTreeMap::new();
    for wanted in stage::wanted(spec).flat_map(|stage| files(stage, target)) {
        let bytes = read(mirror, &wanted);
        let read = manifest::read(&wanted, &bytes, wanted.expected(spec));
        assert!(read.is_ok(), "{read:?}");
        checked.insert(wanted, read.map(Arc::new));
    }
    let storage = storage();
    let of = Ingredients {
        spec,
        target,
        storage: &storage,
        cluster: None,
        files: &checked,
    };
    stage::wanted(spec)
        .map(|stage| (stage.name, objects(stage, of).unwrap()))
        .collect()
}

fn storage() -> Storage {
    let device = |hostname: &str, class: Option<&str>| SettledDevice {
        hostname: hostname.into(),
        device: "/dev/sda".into(),
        by_id: format!("/dev/disk/by-id/wwn-{hostname}"),
        device_class: class.map(str::to_owned),
    };
    let settlement = Settlement {
        devices: vec![
            device("a", Some("ssd")),
            device("b", None),
            device("c", Some("hdd")),
        ],
        ..Settlement::default()
    };
    settlement.storage(&[])
}

fn of(release: &RookRelease) -> Target {
    let spec = HyperCloudStorageSpec {
        versions: Some(hypercloud_api::StorageVersions {
            rook: Some(release.version.to_string()),
            ceph: None,
        }),
        ..Default::default()
    };
    target(&spec, Running::default(), None).unwrap()
}

fn named<'a>(objects: &'a [Desired], kind: &str, name: &str) -> Option<&'a Value> {
    let mut found = objects
        .iter()
        .filter(|d| d.key.kind == kind && d.key.name == name);
    found.next().map(|desired| &desired.object)
}

#[test]
fn every_checksum_is_the_files() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    for known in FILES {
        let wanted = Wanted {
            project: known.project,
            version: known.version,
            file: known.file.to_owned(),
        };
        let bytes = read(&mirror, &wanted);
        wanted.check(&bytes, Some(known.sha256)).unwrap();
        let mut other = bytes;
        other[0] ^= 1;
        let refused = wanted.check(&other, Some(known.sha256)).unwrap_err();
        assert_eq!(refused.reason(), "ManifestChecksumWrong");
    }
}

#[test]
fn a_folder_is_laid_out_as_the_mirror() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    let folder = hypercloud_api::ManifestMirror {
        folder: Some(mirror.display().to_string()),
        ..Default::default()
    };
    for wanted in files(stage::named("rook-operator").unwrap(), &of(&ROOK[0])) {
        let Place::File(path) = wanted.place(Some(&folder)) else {
            panic!("no file")
        };
        assert!(Path::new(&path).is_file(), "{path}");
    }
}

#[test]
fn every_stage_is_built_of_every_release() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    for release in ROOK {
        let stages = built(&mirror, &spec(SMALLEST), &of(release));
        let count = |stage: &str, kind: &str| {
            let objects = stages[stage].iter();
            objects.filter(|desired| desired.key.kind == kind).count()
        };
        let crds = match release.version {
            Version { minor: 20, .. } => 21,
            _ => 20,
        };
        assert_eq!(count("rook-definitions", "CustomResourceDefinition"), crds);
        assert_eq!(count("csi-operator", "CustomResourceDefinition"), 5);
        assert_eq!(count("snapshot-definitions", "CustomResourceDefinition"), 6);
        assert_eq!(stages["rook-common"][0].key.kind, "Namespace");
        // The operator is the last of its file, after what it reads.
        let operator = stages["rook-operator"].last().unwrap();
        assert_eq!(operator.key.kind, "Deployment");
        let keys: BTreeSet<_> = stages.values().flatten().map(|d| &d.key).collect();
        assert_eq!(keys.len(), stages.values().map(Vec::len).sum::<usize>());
    }
}

#[test]
fn every_kind_that_is_applied_is_looked_at() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    for release in ROOK {
        let mut spec = spec(EVERYTHING);
        spec.versions = None;
        let stages = built(&mirror, &spec, &of(release));
        for desired in stages.values().flatten() {
            let kind = Kind::of(&desired.key);
            let kind = kind.unwrap_or_else(|| panic!("{} is not looked at", desired.key));
            assert_eq!(kind.namespaced, desired.key.namespace.is_some());
            for which in kind.which {
                if let Which::Named(names) = which {
                    assert!(
                        names.contains(&desired.key.name.as_str()),
                        "{}",
                        desired.key
                    );
                }
            }
        }
    }
}

#[test]
fn what_is_waited_for_is_what_is_installed() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    let everything = spec(EVERYTHING);
    for release in ROOK {
        let mut spec = everything.clone();
        spec.versions = None;
        let stages = built(&mirror, &spec, &of(release));
        for stage in STAGES.iter().filter(|stage| !stage.sources.is_empty()) {
            for ready in stage.ready {
                let (kind, name) = match ready {
                    // Rook makes it.
                    Ready::Serving(_, hypercloud_storage::GATEWAY) => continue,
                    Ready::Available(_, name) | Ready::Serving(_, name) => ("Deployment", *name),
                    Ready::Phase(kind, name) => (*kind, *name),
                    _ => continue,
                };
                assert!(
                    named(&stages[stage.name], kind, name).is_some(),
                    "{kind} {name}"
                );
            }
        }
    }
}

#[test]
fn settings_are_seeded_and_everything_else_is_kept() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    let stages = built(&mirror, &spec(SMALLEST), &of(&ROOK[0]));
    let seeded: Vec<(&str, &str)> = stages["rook-operator"]
        .iter()
        .filter(|desired| desired.keep == Keep::Seeded)
        .map(|desired| (desired.key.kind.as_str(), desired.key.name.as_str()))
        .collect();
    assert_eq!(seeded, stage::SEEDED);
    let others = stages
        .iter()
        .filter(|(stage, _)| **stage != "rook-operator");
    assert!(
        others
            .flat_map(|(_, objects)| objects)
            .all(|d| d.keep == Keep::Current)
    );
}

/// Definitions by kind.
fn definitions(stages: &BTreeMap<&'static str, Vec<Desired>>) -> BTreeMap<String, Value> {
    let all = stages.values().flatten();
    let definitions = all.filter(|desired| desired.key.kind == "CustomResourceDefinition");
    definitions
        .map(|desired| {
            let kind = desired.object["spec"]["names"]["kind"].as_str().unwrap();
            (kind.to_owned(), desired.object.clone())
        })
        .collect()
}

#[test]
fn what_is_rendered_fits_the_definitions_of_every_release() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    for release in ROOK {
        for text in [SMALLEST, EVERYTHING] {
            let mut spec = spec(text);
            spec.versions = None;
            let stages = built(&mirror, &spec, &of(release));
            let definitions = definitions(&stages);
            let mut judged = 0;
            for desired in stages.values().flatten() {
                if let Some(definition) = definitions.get(&desired.key.kind) {
                    let wrong = schema::breaches(definition, &desired.object);
                    assert!(wrong.is_empty(), "{}: {wrong:#?}", desired.key);
                    judged += 1;
                }
            }
            assert!(judged >= 6, "{judged}");
            // The schema does refuse.
            let mut wrong = stages["ceph-cluster"][0].object.clone();
            wrong["spec"]["storge"] = json!({});
            wrong["spec"]["mon"]["count"] = json!("three");
            let found = schema::breaches(&definitions["CephCluster"], &wrong);
            assert_eq!(found.len(), 2, "{found:?}");
        }
    }
}

#[test]
fn the_cluster_is_what_was_asked_for() {
    let target = of(&ROOK[0]);
    let render = |text, data| cluster::ceph_cluster(&spec(text), &target, &storage(), None, data);
    let small = render(SMALLEST, cluster::Data::Kept);
    assert_eq!(small["spec"]["mon"]["count"], 3);
    assert_eq!(
        small["spec"]["cephVersion"]["image"],
        "quay.io/ceph/ceph:v20.2.4"
    );
    assert_eq!(small["spec"]["storage"]["useAllDevices"], false);
    assert_eq!(small["spec"]["storage"]["nodes"][0]["name"], "a");
    assert!(small["spec"].get("network").is_none());
    let large = render(EVERYTHING, cluster::Data::Kept);
    assert_eq!(large["spec"]["network"]["provider"], "host");
    assert_eq!(
        large["spec"]["network"]["addressRanges"]["cluster"][0],
        "10.2.0.0/16"
    );
    assert_eq!(large["spec"]["resources"]["osd"]["limits"]["memory"], "4Gi");
    assert_eq!(
        large["spec"]["cleanupPolicy"]["sanitizeDisks"]["method"],
        "complete"
    );
    // The confirmation in the specification is not Rook's before the deletion.
    assert!(large["spec"]["cleanupPolicy"].get("confirmation").is_none());
    let destroyed = render(EVERYTHING, cluster::Data::Destroyed);
    assert_eq!(
        destroyed["spec"]["cleanupPolicy"]["confirmation"],
        "yes-really-destroy-data"
    );
}

#[test]
fn no_image_comes_from_a_registry_that_another_stands_in_for() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    let to = "registry.example:5000/";
    let mut spec = spec(EVERYTHING);
    spec.versions = None;
    spec.registries = ["docker.io", "quay.io", "registry.k8s.io", "gcr.io"]
        .map(|from| RegistryMirror {
            from: from.to_owned(),
            to: format!("{to}{from}"),
        })
        .to_vec();
    for release in ROOK {
        let stages = built(&mirror, &spec, &of(release));
        let of_rook = format!("rook/v{}/images.txt", release.version);
        let listed = fs::read_to_string(mirror.join(of_rook)).unwrap();
        let text: String = stages
            .values()
            .flatten()
            .filter(|desired| desired.key.kind != "CustomResourceDefinition")
            .map(|desired| desired.object.to_string())
            .collect();
        for desired in stages.values().flatten() {
            let left = image::images(&desired.object);
            assert!(left.is_empty(), "{}: {left:?}", desired.key);
        }
        // What Rook lists as needed is named, but for what only COSI takes.
        let needed = listed.lines().map(str::trim).filter(|image| {
            !image.is_empty() && !image.contains("objectstorage") && !image.contains("/cosi:")
        });
        for image in needed {
            assert!(text.contains(&format!("{to}{image}")), "{image}");
        }
    }
}

#[test]
fn the_toolbox_is_of_the_clusters_version() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    for release in ROOK {
        let target = of(release);
        let stages = built(&mirror, &spec(SMALLEST), &target);
        let tools = named(&stages["toolbox"], "Deployment", "rook-ceph-tools").unwrap();
        let image = &tools["spec"]["template"]["spec"]["containers"][0]["image"];
        assert_eq!(image, &json!(format!("quay.io/ceph/ceph:v{}", target.ceph)));
    }
}

#[test]
fn an_upgrade_is_seen_in_what_was_applied() {
    let Some(mirror) = mirror::folder() else {
        return;
    };
    let stages = |release| built(&mirror, &spec(SMALLEST), &of(release));
    let (new, old) = (stages(&ROOK[0]), stages(&ROOK[1]));
    let seen: Seen = old.values().flatten().map(|d| d.object.clone()).collect();
    let differ = |stage: &Stage| {
        let objects: &[Desired] = &new[stage.name];
        objects.iter().any(|desired| !desired.is_applied(&seen))
    };
    let changed: Vec<&str> = stage::wanted(&spec(SMALLEST))
        .filter(|stage| differ(stage))
        .map(|stage| stage.name)
        .collect();
    assert_eq!(
        changed,
        [
            "rook-definitions",
            "rook-common",
            "csi-operator",
            "rook-operator",
            "ceph-cluster",
            "toolbox"
        ]
    );
}
