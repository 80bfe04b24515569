//! Everything that the status said while somebody looked.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::TryStreamExt;
use hypercloud_api::{ComponentState, HyperCloudStorageStatus, StorageState};
use kube::runtime::watcher::{self, Event, watcher};

use crate::cluster::Cluster;

/// A status, and when it was seen.
#[derive(Clone, Debug)]
pub struct Said {
    /// When.
    pub at: Instant,
    /// What.
    pub status: HyperCloudStorageStatus,
}

/// Watches the storage while it lives.
pub struct History {
    said: Arc<Mutex<Vec<Said>>>,
    task: tokio::task::JoinHandle<()>,
}

impl History {
    /// Begins to watch.
    #[must_use]
    pub fn begin(cluster: &Cluster) -> Self {
        let said: Arc<Mutex<Vec<Said>>> = Arc::default();
        let kept = Arc::clone(&said);
        let stream = watcher(super::api(cluster), watcher::Config::default());
        let task = tokio::spawn(async move {
            let mut stream = std::pin::pin!(stream);
            loop {
                match stream.try_next().await {
                    Ok(Some(Event::Apply(found) | Event::InitApply(found))) => {
                        if let (Some(status), Ok(mut said)) = (found.status, kept.lock()) {
                            let at = Instant::now();
                            said.push(Said { at, status });
                        }
                    }
                    Ok(Some(_)) => {}
                    // The watch begins anew.
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                    Ok(None) => return,
                }
            }
        });
        Self { said, task }
    }

    /// What was said so far.
    pub fn so_far(&self) -> anyhow::Result<Vec<Said>> {
        Ok(self.said.lock().ok().context("the watch died")?.clone())
    }

    /// The states, each once for as long as it stayed.
    pub fn states(&self) -> anyhow::Result<Vec<StorageState>> {
        let mut states: Vec<StorageState> = Vec::new();
        for said in self.so_far()? {
            if let Some(state) = said.status.state
                && states.last() != Some(&state)
            {
                states.push(state);
            }
        }
        Ok(states)
    }

    /// Where a component was first seen like this.
    pub fn first(
        &self,
        name: &str,
        is: impl Fn(ComponentState) -> bool,
    ) -> anyhow::Result<Option<usize>> {
        let said = self.so_far()?;
        Ok(said.iter().position(|said| {
            super::component(&said.status, name).is_some_and(|component| is(component.state))
        }))
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}
