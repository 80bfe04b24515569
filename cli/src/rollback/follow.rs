//! Following a rollback's resource to its end (client required).
//!
//! A watch tells of each change; where it ends or breaks, the resource is read
//! anew. An API server that is away for a while, as while it is upgraded, ends
//! nothing.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use hypercloud_api::VirtualMachineVolumeRollback;
use kube::Error as KubeError;
use kube::api::{Api, WatchEvent, WatchParams};

use super::course::{Course, Done, course};
use super::failure::Failure;
use super::show::Audience;

/// Pauses after errors in a row.
const PAUSES: [u64; 8] = [1, 1, 2, 4, 8, 16, 30, 30];
/// Seconds after which a watch is begun anew.
const WATCH: u32 = 240;

/// How a watch ended.
enum Watched {
    /// With the rollback.
    End(Result<Done, Failure>),
    /// By itself, having told something.
    Closed,
    /// Without a word.
    Silent,
    /// With an error.
    Broken(KubeError),
}

/// Follows `rollback`, which was just made, and tells `audience` of each step.
///
/// # Errors
/// How it ended, where that is not well; or that it cannot be seen any more.
pub(super) async fn follow(
    api: &Api<VirtualMachineVolumeRollback>,
    mut rollback: VirtualMachineVolumeRollback,
    audience: &mut impl Audience,
) -> Result<Done, Failure> {
    let whose = Whose {
        namespace: rollback.metadata.namespace.clone().unwrap_or_default(),
        name: rollback.metadata.name.clone().unwrap_or_default(),
        uid: rollback.metadata.uid.clone(),
    };
    let mut troubles = 0;
    loop {
        if let Some(end) = tell(&rollback, audience) {
            return end;
        }
        match watch(api, &whose, &rollback, audience).await {
            Watched::End(end) => return end,
            Watched::Closed => {}
            Watched::Silent => tokio::time::sleep(Duration::from_secs(1)).await,
            Watched::Broken(error) => whose.pause(error, &mut troubles).await?,
        }
        rollback = loop {
            match api.get(&whose.name).await {
                Ok(found) if found.metadata.uid == whose.uid => {
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

/// Tells where a rollback is; the end where it is at one.
fn tell(
    rollback: &VirtualMachineVolumeRollback,
    audience: &mut impl Audience,
) -> Option<Result<Done, Failure>> {
    match course(rollback) {
        Course::UnderWay(step) => {
            audience.step(&step);
            None
        }
        Course::Done(done) => Some(Ok(done)),
        Course::Refused(said) => Some(Err(Failure::Refused(said))),
        Course::Failed(said) => Some(Err(Failure::Failed(said))),
    }
}

/// Watches the rollback from where it was seen on.
async fn watch(
    api: &Api<VirtualMachineVolumeRollback>,
    whose: &Whose,
    seen: &VirtualMachineVolumeRollback,
    audience: &mut impl Audience,
) -> Watched {
    let parameters = WatchParams::default()
        .fields(&format!("metadata.name={}", whose.name))
        .timeout(WATCH);
    let version = seen.metadata.resource_version.as_deref().unwrap_or("0");
    let events = match api.watch(&parameters, version).await {
        Ok(events) => events,
        Err(error) => return Watched::Broken(error),
    };
    let mut events = pin!(events);
    let mut end = Watched::Silent;
    while let Some(event) = events.next().await {
        let rollback = match event {
            Ok(WatchEvent::Added(rollback) | WatchEvent::Modified(rollback)) => rollback,
            Ok(WatchEvent::Deleted(_)) => return Watched::End(Err(whose.vanished())),
            Ok(WatchEvent::Bookmark(_)) => continue,
            // Such as a version that is too old: it is read anew.
            Ok(WatchEvent::Error(_)) => return end,
            Err(error) => return Watched::Broken(error),
        };
        if rollback.metadata.uid != whose.uid {
            return Watched::End(Err(whose.vanished()));
        }
        end = Watched::Closed;
        if let Some(end) = tell(&rollback, audience) {
            return Watched::End(end);
        }
    }
    end
}

/// Which rollback is followed.
struct Whose {
    namespace: String,
    name: String,
    uid: Option<String>,
}

impl Whose {
    fn vanished(&self) -> Failure {
        Failure::Vanished {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
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
                namespace: self.namespace.clone(),
                name: self.name.clone(),
                source: error,
            });
        };
        *troubles += 1;
        tokio::time::sleep(Duration::from_secs(*seconds)).await;
        Ok(())
    }
}
