//! How a device that is taken out of the specification is given up.
//!
//! Nothing is done where it was not asked for. Where it was, one device at a
//! time: while Ceph is healthy, the device is written down, taken out of the
//! CephCluster, marked out, waited for until Ceph needs it no more, stopped
//! and purged.
//!
//! Invariants: an OSD is stopped only after Ceph said that it is safe to
//! destroy, and only if its device was written down; what is not known of
//! OSDs is waited for.

use hypercloud_api::{FailureDomain, RemovalPolicy, SettledDevice, StorageCluster};

use crate::health::Judgement;
use crate::state::Problem;

/// An OSD as Ceph and Kubernetes see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Osd {
    /// Its number.
    pub id: u32,
    /// The node's label `kubernetes.io/hostname`.
    pub hostname: String,
    /// The path by which Rook was given its device.
    pub device: String,
    /// Whether Ceph gives it data.
    pub is_in: bool,
    /// Whether its Deployment has pods.
    pub runs: bool,
    /// Whether Ceph needs it for no data; none where that was not asked.
    pub safe_to_destroy: Option<bool>,
}

/// What is known of the OSDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Osds {
    /// Every OSD; none where that is not known. An OSD that is not in the list
    /// is gone.
    pub list: Option<Vec<Osd>>,
    /// What people are told: why it is not known, or what does not go on.
    pub problems: Vec<Problem>,
}

impl Osds {
    /// These are all.
    #[must_use]
    pub fn known(list: Vec<Osd>) -> Self {
        Self {
            list: Some(list),
            problems: Vec::new(),
        }
    }

    /// There are none, or nobody has to know.
    #[must_use]
    pub fn none() -> Self {
        Self::known(Vec::new())
    }

    /// They are not known, for this reason.
    #[must_use]
    pub fn unknown(problem: Problem) -> Self {
        Self {
            list: None,
            problems: vec![problem],
        }
    }
}

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write down in the status that the device is given up.
    WriteDown(SettledDevice),
    /// Tell Ceph to move the OSD's data away.
    MarkOut(u32),
    /// Tell Ceph to use the OSD again.
    MarkIn(u32),
    /// Scale the OSD's Deployment to nothing.
    Stop(u32),
    /// Run Rook's job that purges the OSD, without force.
    Purge(u32),
    /// Take the device off the list in the status.
    Forget(SettledDevice),
}

/// What a look comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Devices that the CephCluster keeps though they are not asked for.
    pub kept: Vec<SettledDevice>,
    /// What is done next.
    pub action: Option<Action>,
    /// What people are told.
    pub problems: Vec<Problem>,
}

/// What is seen.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The specification.
    pub storage: &'a StorageCluster,
    /// Devices that are asked for.
    pub wanted: &'a [SettledDevice],
    /// Devices that the CephCluster has and that are asked for no more.
    pub dropped: &'a [SettledDevice],
    /// Devices that were written down.
    pub removing: &'a [SettledDevice],
    /// What is known of the OSDs, where devices were written down.
    pub osds: &'a Osds,
    /// How Ceph is.
    pub ceph: &'a Judgement,
}

/// What is done about devices that are not asked for.
#[must_use]
pub fn plan(view: &View<'_>) -> Plan {
    let kept: Vec<SettledDevice> = view
        .dropped
        .iter()
        .filter(|device| !is_listed(view.removing, device))
        .cloned()
        .collect();
    let mut plan = Plan {
        kept,
        ..Plan::default()
    };
    if let Some(device) = view.removing.first() {
        plan.go_on(device, view);
        return plan;
    }
    let Some(device) = plan.kept.first().cloned() else {
        return plan;
    };
    match view.storage.removal.unwrap_or_default() {
        RemovalPolicy::Refuse => plan.refuse(),
        RemovalPolicy::PurgeOsds => plan.begin(device, view),
    }
    plan
}

fn is_listed(list: &[SettledDevice], device: &SettledDevice) -> bool {
    list.iter()
        .any(|other| other.hostname == device.hostname && other.by_id == device.by_id)
}

impl Plan {
    fn refuse(&mut self) {
        let names: Vec<String> = self
            .kept
            .iter()
            .map(|device| format!("{} of {}", device.device, device.hostname))
            .collect();
        self.problems.push(Problem {
            reason: "DeviceRemovalRefused",
            message: format!(
                "{} cannot just go: put it back in storage.nodes, or set storage.removal to PurgeOsds, by which its data moves away first",
                names.join(", ")
            ),
            waiting: false,
        });
    }

    fn begin(&mut self, device: SettledDevice, view: &View<'_>) {
        let domain = view.storage.failure_domain.unwrap_or_default();
        let left = match domain {
            FailureDomain::Osd => view.wanted.len(),
            FailureDomain::Host => {
                let mut hosts: Vec<&str> =
                    view.wanted.iter().map(|d| d.hostname.as_str()).collect();
                hosts.sort_unstable();
                hosts.dedup();
                hosts.len()
            }
        };
        let replicas = usize::try_from(view.storage.replicas).unwrap_or(usize::MAX);
        if left < replicas {
            self.problems.push(Problem {
                reason: "TooFewDevicesLeft",
                message: format!(
                    "without {} of {} there is no room for {replicas} copies: put it back in storage.nodes, or add another first",
                    device.device, device.hostname
                ),
                waiting: false,
            });
        } else if !view.ceph.is_healthy() {
            self.wait(format!(
                "{} of {} is given up once Ceph is healthy: {}",
                device.device, device.hostname, view.ceph.message
            ));
        } else {
            self.wait(format!(
                "{} of {} is given up",
                device.device, device.hostname
            ));
            self.action = Some(Action::WriteDown(device));
        }
    }

    fn go_on(&mut self, device: &SettledDevice, view: &View<'_>) {
        self.problems.extend(view.osds.problems.iter().cloned());
        let Some(osds) = &view.osds.list else {
            return;
        };
        let osd = osds
            .iter()
            .find(|osd| osd.hostname == device.hostname && osd.device == device.by_id);
        let name = format!("{} of {}", device.device, device.hostname);
        if is_listed(view.wanted, device) {
            // It is wanted again.
            self.action = Some(match osd {
                Some(osd) if !osd.is_in => Action::MarkIn(osd.id),
                _ => Action::Forget(device.clone()),
            });
            return;
        }
        let Some(osd) = osd else {
            self.action = Some(Action::Forget(device.clone()));
            return;
        };
        if view.storage.removal.unwrap_or_default() == RemovalPolicy::Refuse {
            self.wait(format!(
                "{name} (OSD {}) is not given up any further while storage.removal is Refuse: put it back in storage.nodes, or set PurgeOsds",
                osd.id
            ));
        } else if is_listed(view.dropped, device) {
            self.wait(format!("Rook is told that {name} is not Ceph's any more"));
        } else if osd.is_in && !view.ceph.is_healthy() {
            self.wait(format!(
                "the data of {name} (OSD {}) moves away once Ceph is healthy: {}",
                osd.id, view.ceph.message
            ));
        } else if osd.is_in {
            self.wait(format!("the data of {name} (OSD {}) moves away", osd.id));
            self.action = Some(Action::MarkOut(osd.id));
        } else if osd.safe_to_destroy != Some(true) {
            self.wait(format!("the data of {name} (OSD {}) moves away", osd.id));
        } else if osd.runs {
            self.wait(format!("OSD {} of {name} is stopped", osd.id));
            self.action = Some(Action::Stop(osd.id));
        } else {
            self.wait(format!("OSD {} of {name} is purged", osd.id));
            self.action = Some(Action::Purge(osd.id));
        }
    }

    fn wait(&mut self, message: String) {
        self.problems.push(Problem {
            reason: "DeviceRemoval",
            message,
            waiting: true,
        });
    }
}

#[cfg(test)]
mod tests;
