//! Snapshots of volumes (client required).

use kube::Client;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams};

use super::claims::is_driver;
use super::list::all;
use crate::shell::error::ObserveError;
use crate::volume::snapshot::GROUP;

/// What snapshots there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    /// Names of contents of this storage.
    pub ours: Vec<String>,
    /// Whether there are others.
    pub foreign: bool,
}

/// The contents of snapshots, which outlive them where they are retained.
pub async fn look(client: &Client) -> Result<Snapshots, ObserveError> {
    let kind = GroupVersionKind::gvk(GROUP, "v1", "VolumeSnapshotContent");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let pick = |content: DynamicObject| {
        let driver = content.data["spec"]["driver"].as_str().unwrap_or_default();
        Some((is_driver(driver), content.name_any()))
    };
    let what = "the contents of snapshots";
    let contents = all(&api, what, ListParams::default(), pick).await?;
    let foreign = contents.iter().any(|(is_ours, _)| !is_ours);
    let ours = contents.into_iter().filter(|(is_ours, _)| *is_ours);
    let mut ours: Vec<String> = ours.map(|(_, name)| name).collect();
    ours.sort();
    Ok(Snapshots { ours, foreign })
}
