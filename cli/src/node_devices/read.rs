//! The NodeDeviceInventories of the cluster, now and as they change (client
//! required).

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use hypercloud_api::NodeDeviceInventory;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Error as KubeError, ResourceExt};

use super::INVENTORIES;
use crate::cluster::{Failure, PAUSES};

/// Seconds after which a watch is begun anew.
const WATCH: u32 = 240;
/// Inventories that are read at once: one of a large node is a megabyte.
const PAGE: u32 = 50;

/// The inventories as they were seen last.
pub(super) struct Seen {
    inventories: BTreeMap<String, NodeDeviceInventory>,
    version: String,
    /// The one node that is meant, where it is one.
    only: Option<String>,
}

impl Seen {
    /// Reads all of them, or that of the one node that is named.
    ///
    /// # Errors
    /// The cluster does not show them.
    pub(super) async fn list(
        api: &Api<NodeDeviceInventory>,
        named: &[String],
    ) -> Result<Self, Failure> {
        let only = match named {
            [one] => Some(one.clone()),
            _ => None,
        };
        Self::read(api, only)
            .await
            .map_err(|error| Failure::read(INVENTORIES, error))
    }

    async fn read(api: &Api<NodeDeviceInventory>, only: Option<String>) -> Result<Self, KubeError> {
        let mut parameters = ListParams::default().limit(PAGE);
        parameters.field_selector = only.as_deref().map(selector);
        let mut inventories = BTreeMap::new();
        loop {
            let page = api.list(&parameters).await?;
            let named = page.items.into_iter();
            inventories.extend(named.map(|inventory| (inventory.name_any(), inventory)));
            match page.metadata.continue_ {
                Some(more) if !more.is_empty() => parameters = parameters.continue_token(&more),
                _ => {
                    let version = page.metadata.resource_version.unwrap_or_default();
                    return Ok(Self {
                        inventories,
                        version,
                        only,
                    });
                }
            }
        }
    }

    pub(super) fn inventories(&self) -> impl Iterator<Item = &NodeDeviceInventory> {
        self.inventories.values()
    }

    /// Those of the named nodes that have none.
    pub(super) fn missing(&self, named: &[String]) -> Vec<String> {
        let has_none = |node: &&String| !self.inventories.contains_key(*node);
        named.iter().filter(has_none).cloned().collect()
    }

    /// Tells of each change until `tell` wants no more.
    ///
    /// # Errors
    /// The cluster does not show them any more.
    pub(super) async fn follow(
        &mut self,
        api: &Api<NodeDeviceInventory>,
        mut tell: impl FnMut(&Self) -> bool,
    ) -> Result<(), Failure> {
        let mut troubles = 0;
        loop {
            match self.watch(api, &mut tell).await {
                Watched::Enough => return Ok(()),
                // As after a while, and where the version is too old.
                Watched::Ended => pause(&mut troubles, None).await?,
                Watched::Told => troubles = 0,
                Watched::Broken(error) => pause(&mut troubles, Some(error)).await?,
            }
            match Self::read(api, self.only.clone()).await {
                Ok(fresh) => {
                    *self = fresh;
                    troubles = 0;
                    if !tell(self) {
                        return Ok(());
                    }
                }
                Err(error) => pause(&mut troubles, Some(error)).await?,
            }
        }
    }

    async fn watch(
        &mut self,
        api: &Api<NodeDeviceInventory>,
        tell: &mut impl FnMut(&Self) -> bool,
    ) -> Watched {
        let mut parameters = WatchParams::default().timeout(WATCH);
        parameters.field_selector = self.only.as_deref().map(selector);
        let events = match api.watch(&parameters, &self.version).await {
            Ok(events) => events,
            Err(error) => return Watched::Broken(error),
        };
        let mut events = pin!(events);
        let mut end = Watched::Ended;
        while let Some(event) = events.next().await {
            match event {
                Ok(WatchEvent::Added(changed) | WatchEvent::Modified(changed)) => {
                    self.inventories.insert(changed.name_any(), changed);
                }
                Ok(WatchEvent::Deleted(gone)) => {
                    self.inventories.remove(&gone.name_any());
                }
                Ok(WatchEvent::Bookmark(_)) => continue,
                Ok(WatchEvent::Error(_)) => return end,
                Err(error) => return Watched::Broken(error),
            }
            end = Watched::Told;
            if !tell(self) {
                return Watched::Enough;
            }
        }
        end
    }
}

/// What tells one inventory from others.
fn selector(node: &str) -> String {
    format!("metadata.name={node}")
}

/// How a watch ended.
enum Watched {
    /// Nobody wants more.
    Enough,
    /// By itself, having told something.
    Told,
    /// Without a word.
    Ended,
    /// With an error.
    Broken(KubeError),
}

/// Waits before the API server is asked again.
///
/// # Errors
/// The error, where that would not help, or did not.
async fn pause(troubles: &mut usize, error: Option<KubeError>) -> Result<(), Failure> {
    let Some(error) = error else {
        tokio::time::sleep(Duration::from_secs(1)).await;
        return Ok(());
    };
    let refused = matches!(&error, KubeError::Api(status) if matches!(status.code, 401 | 403));
    let pause = PAUSES.get(*troubles).filter(|_| !refused);
    let Some(seconds) = pause else {
        return Err(Failure::read(INVENTORIES, error));
    };
    *troubles += 1;
    tokio::time::sleep(Duration::from_secs(*seconds)).await;
    Ok(())
}
