//! From the name that somebody wrote to a device that can be given away.

use crate::inventory::{Device, Inventory};
use crate::reason::Explanation;

/// A device that can be used, by the link that survives a reboot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved<'a> {
    /// The device.
    pub device: &'a Device,
    /// Its link in `/dev/disk/by-id`.
    pub path: &'a str,
}

/// Why a device cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The phrases say what the fields are.
pub enum Refusal {
    /// No device has that name or link.
    #[error("there is no device {name}")]
    NotThere { name: String },
    /// Two devices have the link.
    #[error("{name} is claimed by {devices}")]
    NotOne { name: String, devices: String },
    /// It is not available.
    #[error("{name} is not available: {}", listed(.reasons))]
    NotAvailable {
        name: String,
        reasons: Vec<Explanation>,
    },
    /// It is available, but by no name that lasts.
    #[error("{name} has no link in /dev/disk/by-id, and its name may be another's after a reboot")]
    NoStableName { name: String },
}

/// Reasons that hold against a device as long as nobody names it: Rook takes
/// such kinds then.
const UNASKED: [&str; 2] = ["LogicalVolume", "LoopDevice"];

fn listed(reasons: &[Explanation]) -> String {
    let phrases: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    phrases.join("; ")
}

/// The device called `name` (`sda`, `/dev/sda` or any link to it) and its
/// stable path. That it is a kind which is not offered unasked does not speak
/// against a device that is named.
///
/// # Errors
/// A device that is not there, not available, or has no stable path.
pub fn resolve<'a>(inventory: &'a Inventory, name: &str) -> Result<Resolved<'a>, Refusal> {
    let path = if name.starts_with('/') {
        name.to_owned()
    } else {
        format!("/dev/{name}")
    };
    let found: Vec<&Device> = inventory
        .devices
        .iter()
        .filter(|device| {
            let identity = &device.identity;
            device.path == path
                || identity.by_id.as_ref() == Some(&path)
                || identity.links.contains(&path)
        })
        .collect();
    match found.as_slice() {
        [] => Err(Refusal::NotThere { name: name.into() }),
        [device] => usable(device, name),
        several => match several
            .iter()
            .find(|device| device.identity.by_id.as_deref() == Some(&path))
        {
            // A multipath device, whose paths have its links too.
            Some(device) => usable(device, name),
            None => {
                let devices: Vec<&str> =
                    several.iter().map(|device| device.name.as_str()).collect();
                Err(Refusal::NotOne {
                    name: name.into(),
                    devices: devices.join(", "),
                })
            }
        },
    }
}

fn usable<'a>(device: &'a Device, name: &str) -> Result<Resolved<'a>, Refusal> {
    let reasons: Vec<Explanation> = device
        .reasons
        .iter()
        .filter(|reason| !UNASKED.contains(&reason.code()))
        .cloned()
        .collect();
    if !reasons.is_empty() {
        return Err(Refusal::NotAvailable {
            name: name.into(),
            reasons,
        });
    }
    match &device.identity.by_id {
        Some(path) => Ok(Resolved { device, path }),
        None => Err(Refusal::NoStableName { name: name.into() }),
    }
}
