//! Snapshots of volumes (client required).

use hypercloud_storage::object::Seen;
use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};

use super::claims::is_driver;
use super::list::{Known, all, reading};
use crate::shell::error::ObserveError;
use crate::volume::snapshot::{GROUP, classes};

/// What snapshots there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// Names of contents of this storage.
    pub ours: Vec<String>,
    /// Whether other drivers have some, or could take some.
    pub foreign: bool,
}

/// The contents of snapshots, which outlive them where they are retained.
pub async fn look(client: &Client, seen: &Seen) -> Result<Snapshots, ObserveError> {
    let kind = GroupVersionKind::gvk(GROUP, "v1", "VolumeSnapshotContent");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let pick = |content: DynamicObject| {
        let driver = content.data["spec"]["driver"].as_str().unwrap_or_default();
        Some((is_driver(driver), content.name_any()))
    };
    let definition = format!("volumesnapshotcontents.{GROUP}");
    let what = ("the contents of snapshots", Known::by(seen, &definition));
    let contents = all(&api, what, ListParams::default(), pick).await?;
    // A driver with a class of its own may have none just now.
    let classes = classes(client)
        .await
        .map_err(reading("the snapshot classes"))?;
    let foreign = contents.iter().any(|(is_ours, _)| !is_ours)
        || classes.iter().any(|class| !is_driver(&class.driver));
    let ours = contents.into_iter().filter(|(is_ours, _)| *is_ours);
    let mut ours: Vec<String> = ours.map(|(_, name)| name).collect();
    ours.sort();
    Ok(Snapshots { ours, foreign })
}
