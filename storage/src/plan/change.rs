//! What a change of the specification will cost, said when it begins.

use std::collections::BTreeSet;

use hypercloud_api::SettledDevice;

/// Something that people are told of by an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// One CamelCase word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// What changes between two looks, of a storage that runs.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Node and name of every device that the CephCluster has.
    pub in_cluster: &'a BTreeSet<(String, String)>,
    /// Devices that it is to have.
    pub devices: &'a [SettledDevice],
    /// Copies that there are, and that there are to be.
    pub replicas: (Option<i64>, i32),
}

/// What people are told before the change is made. Nothing of a storage that
/// is being installed.
#[must_use]
pub fn notices(change: &Change<'_>) -> Vec<Notice> {
    let mut notices = Vec::new();
    if change.in_cluster.is_empty() {
        return notices;
    }
    let known: BTreeSet<&str> = change
        .in_cluster
        .iter()
        .map(|(hostname, _)| hostname.as_str())
        .collect();
    let mut hostnames: Vec<&str> = Vec::new();
    for device in change.devices {
        let pair = (device.hostname.clone(), device.by_id.clone());
        if !change.in_cluster.contains(&pair) && !hostnames.contains(&device.hostname.as_str()) {
            hostnames.push(&device.hostname);
        }
    }
    for hostname in hostnames {
        let added: Vec<&str> = change
            .devices
            .iter()
            .filter(|device| device.hostname == hostname)
            .filter(|device| {
                let pair = (device.hostname.clone(), device.by_id.clone());
                !change.in_cluster.contains(&pair)
            })
            .map(|device| device.by_id.as_str())
            .collect();
        let added = added.join(", ");
        notices.push(if known.contains(hostname) {
            Notice {
                reason: "DevicesAdded",
                message: format!(
                    "{hostname} gets {added}: the OSDs of the node restart one after another, and data moves to the new ones; disks stay usable, and are slower meanwhile"
                ),
            }
        } else {
            Notice {
                reason: "NodeAdded",
                message: format!(
                    "{hostname} joins with {added}: data moves to it; disks stay usable, and are slower meanwhile"
                ),
            }
        });
    }
    let (had, wanted) = change.replicas;
    notices.extend(had.and_then(|had| raised(had, wanted)));
    notices
}

/// What people are told of devices that were given up: of those that were
/// `removing`, `left` are still, and the storage has `devices`.
#[must_use]
pub fn given_up(
    removing: &[SettledDevice],
    left: &[SettledDevice],
    devices: &[SettledDevice],
) -> Vec<Notice> {
    removing
        .iter()
        .filter(|device| !left.contains(device) && !devices.contains(device))
        .map(|device| Notice {
            reason: "DeviceGivenUp",
            message: format!(
                "{} of {} ({}) is Ceph's no more and carries its label still: clean it with a NodeDeviceCleanup now, or Rook finds it at its next look at the node and makes the OSD's Deployment again, which cannot run",
                device.device, device.hostname, device.by_id
            ),
        })
        .collect()
}

/// What people are told of more copies.
#[must_use]
pub fn raised(had: i64, wanted: i32) -> Option<Notice> {
    (had < i64::from(wanted)).then(|| Notice {
        reason: "ReplicasRaised",
        message: format!(
            "{had} copies of everything become {wanted}: that takes room and time, and Ceph warns until it is done"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(hostname: &str, by_id: &str) -> SettledDevice {
        SettledDevice {
            hostname: hostname.into(),
            device: by_id.into(),
            by_id: by_id.into(),
            device_class: None,
        }
    }

    fn reasons(
        had: &[(&str, &str)],
        wanted: &[SettledDevice],
        replicas: (Option<i64>, i32),
    ) -> Vec<&'static str> {
        let in_cluster = had
            .iter()
            .map(|(hostname, by_id)| ((*hostname).to_owned(), (*by_id).to_owned()))
            .collect();
        let change = Change {
            in_cluster: &in_cluster,
            devices: wanted,
            replicas,
        };
        notices(&change).iter().map(|n| n.reason).collect()
    }

    #[test]
    fn what_is_added_is_told_once_for_each_node() {
        let wanted = [
            device("a", "1"),
            device("a", "2"),
            device("a", "3"),
            device("b", "4"),
        ];
        assert_eq!(
            reasons(&[("a", "1")], &wanted, (Some(3), 3)),
            ["DevicesAdded", "NodeAdded"]
        );
    }

    #[test]
    fn an_installation_and_what_stays_are_not_told() {
        assert!(reasons(&[], &[device("a", "1")], (None, 3)).is_empty());
        let same = [device("a", "1")];
        assert!(reasons(&[("a", "1")], &same, (Some(3), 3)).is_empty());
    }

    #[test]
    fn a_device_that_is_given_up_is_to_be_cleaned() {
        let removing = [device("a", "1"), device("b", "2"), device("c", "3")];
        // One is at it still, one is wanted again.
        let notices = given_up(&removing, &removing[1..2], &removing[2..]);
        assert_eq!(notices.len(), 1);
        assert_eq!(notices[0].reason, "DeviceGivenUp");
        assert!(notices[0].message.contains("NodeDeviceCleanup"));
    }

    #[test]
    fn more_copies_are_told() {
        let same = [device("a", "1")];
        assert_eq!(
            reasons(&[("a", "1")], &same, (Some(2), 3)),
            ["ReplicasRaised"]
        );
    }
}
