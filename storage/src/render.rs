//! Objects of a stage: those of its files, adapted, and those that are made of
//! the specification.

pub mod block;
pub mod cluster;
pub mod object_store;

use hypercloud_api::HyperCloudStorageSpec;
use hypercloud_inventory::rook::Storage;
use serde_json::{Value, json};

use crate::manifest::source::Wanted;
use crate::manifest::{Files, ManifestError, image};
use crate::object::{Desired, Keep};
use crate::stage::{self, Rendered, Source, Stage};
use crate::version::table::{self, CsiImages, Project};
use crate::version::{Target, Version};

/// What objects are made of.
#[derive(Clone, Copy, Debug)]
pub struct Ingredients<'a> {
    /// The specification.
    pub spec: &'a HyperCloudStorageSpec,
    /// What is to run.
    pub target: &'a Target,
    /// Nodes and devices that Ceph is given.
    pub storage: &'a Storage,
    /// The CephCluster that there is.
    pub cluster: Option<&'a Value>,
    /// Files that were fetched.
    pub files: &'a Files,
}

/// The files that a stage needs.
pub fn files(stage: &Stage, target: &Target) -> Vec<Wanted> {
    let wanted = |source: &Source| match source {
        Source::File(project, file) => Some(Wanted {
            project: *project,
            version: Stage::release(*project, target),
            file: (*file).to_owned(),
        }),
        Source::Rendered(_) => None,
    };
    stage.sources.iter().filter_map(wanted).collect()
}

/// The objects of a stage, in the order in which they are applied.
///
/// # Errors
/// A file that is not there or is no manifest.
pub fn objects(stage: &Stage, of: Ingredients<'_>) -> Result<Vec<Desired>, ManifestError> {
    let mut objects = Vec::new();
    for source in stage.sources {
        let made = match source {
            Source::File(project, file) => from_file(*project, file, of)?,
            Source::Rendered(what) => render(*what, of),
        };
        for mut object in made {
            image::rewrite(&mut object, &of.spec.registries);
            let keep = Value::as_str(&object["kind"])
                .zip(object["metadata"]["name"].as_str())
                .map_or(Keep::Current, |(kind, name)| stage::keep(kind, name));
            objects.extend(Desired::new(object, keep, stage.name));
        }
    }
    Ok(objects)
}

fn render(what: Rendered, of: Ingredients<'_>) -> Vec<Value> {
    match what {
        Rendered::CephCluster => vec![cluster::ceph_cluster(
            of.spec,
            of.target,
            of.storage,
            of.cluster,
            cluster::Data::Kept,
        )],
        Rendered::BlockStorage => block::objects(&of.spec.storage),
        Rendered::ObjectStore => object_store::objects(&of.spec.storage),
        Rendered::Cdi => vec![cdi()],
    }
}

fn from_file(
    project: Project,
    file: &str,
    of: Ingredients<'_>,
) -> Result<Vec<Value>, ManifestError> {
    let wanted = Wanted {
        project,
        version: Stage::release(project, of.target),
        file: file.to_owned(),
    };
    let Some(read) = of.files.get(&wanted) else {
        return Err(ManifestError::Missing {
            path: wanted.path(),
            place: "what was fetched".to_owned(),
        });
    };
    let mut objects = match read {
        Ok(objects) => objects.to_vec(),
        Err(error) => return Err(error.clone()),
    };
    for object in &mut objects {
        adapt(object, of);
    }
    Ok(objects)
}

/// What of the files depends on the specification.
fn adapt(object: &mut Value, of: Ingredients<'_>) {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match (kind, name) {
        // Its own image moves with every release of Ceph.
        ("Deployment", "rook-ceph-tools") => {
            let containers = &mut object["spec"]["template"]["spec"]["containers"];
            if let Some(container) = containers.get_mut(0) {
                container["image"] = json!(ceph_image(of.target.ceph));
            }
        }
        // The operator has these images built in; that others stand in for
        // them has to be said.
        ("ConfigMap", "rook-ceph-operator-config") if !of.spec.registries.is_empty() => {
            if let Some(release) = table::rook(of.target.rook)
                && let CsiImages::Operator(images) = release.csi_images
            {
                for (key, image) in images {
                    object["data"][key] = json!(image);
                }
            }
        }
        _ => {}
    }
}

/// The image of a version of Ceph.
#[must_use]
pub fn ceph_image(ceph: Version) -> String {
    format!("quay.io/ceph/ceph:v{ceph}")
}

/// The CDI that the operator of CDI makes.
fn cdi() -> Value {
    let linux = json!({"nodeSelector": {"kubernetes.io/os": "linux"}});
    json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "CDI",
        "metadata": {"name": "cdi"},
        "spec": {
            "config": {"featureGates": ["HonorWaitForFirstConsumer"]},
            "imagePullPolicy": "IfNotPresent",
            // It does not go while anything of it holds data.
            "uninstallStrategy": "BlockUninstallIfWorkloadsExist",
            "infra": linux,
            "workload": linux,
        },
    })
}
