//! Following a resource to its end (client required).
//!
//! A watch tells of each change; where it ends or breaks, the resource is read
//! anew. An API server that is away for a while, as while it is upgraded, ends
//! nothing.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, WatchEvent, WatchParams};
use kube::{Error as KubeError, Resource};
use serde::de::DeserializeOwned;

use super::Work;
use super::course::Course;
use super::failure::Failure;
use super::show::{Audience, Figures, Outcome};

/// Pauses after errors in a row.
pub(crate) const PAUSES: [u64; 8] = [1, 1, 2, 4, 8, 16, 30, 30];
/// Seconds after which a watch is begun anew.
const WATCH: u32 = 240;

/// A resource that can be followed.
pub(crate) trait Followed:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned
{
    /// What is counted while it is under way.
    type Figures: Figures;
    /// What it ends with.
    type Done: Outcome;
    /// What it is called.
    const WORK: &'static Work;

    /// Where it is.
    fn course(&self) -> Course<Self::Figures, Self::Done>;
}

/// How a watch ended.
enum Watched<D> {
    /// With the work.
    End(Result<D, Failure>),
    /// By itself, having told something.
    Closed,
    /// Without a word.
    Silent,
    /// With an error.
    Broken(KubeError),
}

/// Follows a resource, which was just made, and tells `audience` of each step.
///
/// # Errors
/// How it ended, where that is not well; or that it cannot be seen any more.
pub(super) async fn follow<K: Followed>(
    api: &Api<K>,
    mut resource: K,
    whose: &Whose,
    audience: &mut impl Audience<K>,
) -> Result<K::Done, Failure> {
    let mut troubles = 0;
    loop {
        if let Some(end) = tell(&resource, audience) {
            return end;
        }
        match watch(api, whose, &resource, audience).await {
            Watched::End(end) => return end,
            Watched::Closed => {}
            Watched::Silent => tokio::time::sleep(Duration::from_secs(1)).await,
            Watched::Broken(error) => whose.pause(error, &mut troubles).await?,
        }
        resource = loop {
            match api.get(&whose.name).await {
                Ok(found) if found.meta().uid == whose.uid => {
                    troubles = 0;
                    break found;
                }
                Ok(_) => return Err(whose.vanished()),
                Err(KubeError::Api(status)) if status.is_not_found() => {
                    return Err(whose.vanished());
                }
                Err(error) => whose.pause(error, &mut troubles).await?,
            }
        };
    }
}

/// Tells where work is; the end where it is at one.
fn tell<K: Followed>(
    resource: &K,
    audience: &mut impl Audience<K>,
) -> Option<Result<K::Done, Failure>> {
    match resource.course() {
        Course::UnderWay(step) => {
            audience.step(&step);
            None
        }
        Course::Done(done) => Some(Ok(done)),
        Course::Refused(said) => Some(Err(Failure::Refused(said))),
        Course::Failed(said) => Some(Err(Failure::Failed(said))),
    }
}

/// Watches the resource from where it was seen on.
async fn watch<K: Followed>(
    api: &Api<K>,
    whose: &Whose,
    seen: &K,
    audience: &mut impl Audience<K>,
) -> Watched<K::Done> {
    let parameters = WatchParams::default()
        .fields(&format!("metadata.name={}", whose.name))
        .timeout(WATCH);
    let version = seen.meta().resource_version.as_deref().unwrap_or("0");
    let events = match api.watch(&parameters, version).await {
        Ok(events) => events,
        Err(error) => return Watched::Broken(error),
    };
    let mut events = pin!(events);
    let mut end = Watched::Silent;
    while let Some(event) = events.next().await {
        let resource = match event {
            Ok(WatchEvent::Added(resource) | WatchEvent::Modified(resource)) => resource,
            Ok(WatchEvent::Deleted(_)) => return Watched::End(Err(whose.vanished())),
            Ok(WatchEvent::Bookmark(_)) => continue,
            // Such as a version that is too old: it is read anew.
            Ok(WatchEvent::Error(_)) => return end,
            Err(error) => return Watched::Broken(error),
        };
        if resource.meta().uid != whose.uid {
            return Watched::End(Err(whose.vanished()));
        }
        end = Watched::Closed;
        if let Some(end) = tell(&resource, audience) {
            return Watched::End(end);
        }
    }
    end
}

/// Which work is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whose {
    pub(super) work: &'static Work,
    /// None for what the whole cluster has.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    uid: Option<String>,
}

impl Whose {
    pub(super) fn of<K: Followed>(resource: &K) -> Self {
        let meta = resource.meta();
        Self {
            work: K::WORK,
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone(),
        }
    }

    /// It for people.
    pub(super) fn named(&self) -> String {
        let (word, name) = (self.work.word, &self.name);
        match &self.namespace {
            Some(namespace) => format!("{word} {name} in namespace {namespace}"),
            None => format!("{word} {name}"),
        }
    }

    fn vanished(&self) -> Failure {
        Failure::Vanished {
            whose: self.clone(),
        }
    }

    /// Waits before the API server is asked again.
    ///
    /// # Errors
    /// Gives the error back where that would not help, or did not.
    async fn pause(&self, error: KubeError, troubles: &mut usize) -> Result<(), Failure> {
        let refused = matches!(&error, KubeError::Api(status) if matches!(status.code, 401 | 403));
        let pause = PAUSES.get(*troubles).filter(|_| !refused);
        let Some(seconds) = pause else {
            return Err(Failure::Unseen {
                whose: self.clone(),
                source: error,
            });
        };
        *troubles += 1;
        tokio::time::sleep(Duration::from_secs(*seconds)).await;
        Ok(())
    }
}
