//! Leadership by a Lease (client required): at most one coordinator acts.
//!
//! [`decide`] holds every decision; this shell carries them out with the
//! Lease's `resourceVersion`, so that of two who decide alike one fails, and
//! judges time by the local monotonic clock alone: the times in the Lease are
//! for people. A leader that could not renew within [`RENEW_DEADLINE`] holds
//! itself deposed before anyone else can hold the Lease for expired. What
//! fences off work under way are the jobs' identities.

pub mod decide;

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error as KubeError};
use tokio_util::sync::CancellationToken;

use decide::{Decision, Record, Watched, decide};

/// Name of the Lease.
pub const LEASE: &str = "hypercloud-storage-coordinator";
/// How long a Lease holds without being renewed.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// How long a leader goes on without having renewed.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the Lease is looked at.
pub const RETRY: Duration = Duration::from_secs(2);

/// A candidate for leadership.
pub struct Candidate {
    leases: Api<Lease>,
    identity: String,
    watched: Option<Watched>,
    /// When the request was begun by which the Lease was written last.
    renewed: Option<Instant>,
}

/// Leadership was lost: what the leader runs has to stop.
#[derive(Debug, thiserror::Error)]
pub enum LeadershipError {
    /// Somebody else holds the Lease.
    #[error("the lease is held by {holder}")]
    Deposed {
        /// Who holds it.
        holder: String,
    },
    /// The Lease could not be renewed in time.
    #[error("the lease could not be renewed for {RENEW_DEADLINE:?}")]
    NotRenewed(#[source] Option<KubeError>),
}

impl Candidate {
    /// A candidate called `identity` for the Lease in `namespace`.
    pub fn new(client: Client, namespace: &str, identity: String) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            identity,
            watched: None,
            renewed: None,
        }
    }

    /// Waits until this candidate leads; `false` if `stop` came first.
    pub async fn elected(&mut self, stop: &CancellationToken) -> bool {
        loop {
            // A late answer makes no leader: others count from the request.
            let begun = Instant::now();
            let turn = tokio::time::timeout(RENEW_DEADLINE, self.turn());
            match stop.run_until_cancelled(turn).await {
                Some(Ok(Ok(Turn::Leading))) => {
                    self.renewed = Some(begun);
                    return true;
                }
                Some(Ok(Ok(Turn::Following(holder)))) => {
                    tracing::debug!(%holder, "standing by");
                }
                Some(Ok(Ok(Turn::Outrun))) => {}
                Some(Ok(Err(error))) => tracing::warn!(%error, "looking at the lease"),
                Some(Err(_)) => tracing::warn!("looking at the lease: no answer"),
                None => return false,
            }
            if stop
                .run_until_cancelled(tokio::time::sleep(RETRY))
                .await
                .is_none()
            {
                return false;
            }
        }
    }

    /// Renews the Lease for as long as that works, and says why it does not
    /// any more.
    pub async fn lead(&mut self) -> LeadershipError {
        let mut renewed = self.renewed.unwrap_or_else(Instant::now);
        let mut trouble = None;
        loop {
            tokio::time::sleep(RETRY).await;
            // Counted from before the request: the server may have taken it
            // at any time since.
            let begun = Instant::now();
            let left = RENEW_DEADLINE.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.turn()).await {
                Ok(Ok(Turn::Leading)) => {
                    renewed = begun;
                    trouble = None;
                }
                Ok(Ok(Turn::Following(holder))) => return LeadershipError::Deposed { holder },
                Ok(Err(error)) => {
                    tracing::warn!(%error, "renewing the lease");
                    trouble = Some(error);
                }
                // The next turn sees by whom.
                Ok(Ok(Turn::Outrun)) | Err(_) => {}
            }
            if renewed.elapsed() >= RENEW_DEADLINE {
                return LeadershipError::NotRenewed(trouble);
            }
        }
    }

    /// Gives the Lease up, so that the next one need not wait for its end.
    pub async fn release(&mut self) -> Result<(), KubeError> {
        let Some(mut lease) = self.leases.get_opt(LEASE).await? else {
            return Ok(());
        };
        if record(&lease).holder.as_deref() != Some(&self.identity) {
            return Ok(());
        }
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(1);
        self.leases
            .replace(LEASE, &PostParams::default(), &lease)
            .await?;
        Ok(())
    }

    /// Looks at the Lease and does what is decided.
    async fn turn(&mut self) -> Result<Turn, KubeError> {
        let lease = self.leases.get_opt(LEASE).await?;
        let found = lease.as_ref().map(record);
        let now = Instant::now();
        let decision = decide(found.as_ref(), &self.identity, &mut self.watched, now);
        let write = PostParams::default();
        let written = match (decision, lease) {
            (Decision::Follow { holder }, _) => return Ok(Turn::Following(holder)),
            (Decision::Hold(claim), Some(lease)) => {
                let lease = self.held(lease, claim.takes_over);
                self.leases.replace(LEASE, &write, &lease).await
            }
            (Decision::Hold(claim), None) => {
                let metadata = ObjectMeta {
                    name: Some(LEASE.to_owned()),
                    ..ObjectMeta::default()
                };
                let lease = Lease {
                    metadata,
                    spec: None,
                };
                let lease = self.held(lease, claim.takes_over);
                self.leases.create(&write, &lease).await
            }
        };
        match written {
            Ok(_) => Ok(Turn::Leading),
            // Somebody else was faster; the next turn sees who.
            Err(KubeError::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                Ok(Turn::Outrun)
            }
            Err(error) => Err(error),
        }
    }

    /// `lease`, held by this candidate from now on.
    fn held(&self, mut lease: Lease, takes_over: bool) -> Lease {
        let now = MicroTime(Timestamp::now());
        let former = lease.spec.take().unwrap_or_default();
        let transitions = former.lease_transitions.unwrap_or(0);
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
            acquire_time: if takes_over {
                Some(now.clone())
            } else {
                former.acquire_time
            },
            renew_time: Some(now),
            lease_transitions: Some(transitions + i32::from(takes_over)),
            ..LeaseSpec::default()
        });
        lease
    }
}

/// How a turn ended.
enum Turn {
    Leading,
    /// The Lease was written by somebody else meanwhile; perhaps not to hold
    /// it.
    Outrun,
    Following(String),
}

/// What the Lease says.
fn record(lease: &Lease) -> Record {
    let spec = lease.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    Record {
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        holder: spec
            .and_then(|spec| spec.holder_identity.clone())
            .filter(|holder| !holder.is_empty()),
        duration: seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(LEASE_DURATION, Duration::from_secs),
    }
}
