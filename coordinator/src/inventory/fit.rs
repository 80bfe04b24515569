//! Devices made to fit into one object of the API server. Pure.
//!
//! Invariants: what fits is left as it is; no device is changed but for its
//! links, and keeps the one to use; no available device is left out as long as
//! one that is not available is there.

use hypercloud_inventory::Device;

/// Most bytes of devices: the API server's store takes 1.5 MiB, of which
/// metadata and the rest of the status need little.
pub const LIMIT: usize = 1 << 20;

/// Devices that fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// The devices, in their order.
    pub devices: Vec<Device>,
    /// How many were left out.
    pub omitted: usize,
    /// Whether links were left out.
    pub shortened: bool,
}

/// As much of `devices` as fits into `limit` bytes.
pub fn fit(devices: &[Device], limit: usize) -> Fitted {
    let mut kept = devices.to_vec();
    let mut sizes = sizes(&kept);
    let mut total: usize = sizes.iter().sum();
    let shortened = total > limit;
    if shortened {
        for (device, size) in kept.iter_mut().zip(&mut sizes) {
            device.identity.links = Vec::new();
            *size = bytes(device);
        }
        total = sizes.iter().sum();
    }
    let mut omitted = 0;
    for keep_available in [true, false] {
        for at in (0..kept.len()).rev() {
            if total <= limit {
                break;
            }
            if keep_available && kept[at].available {
                continue;
            }
            kept.remove(at);
            total -= sizes.remove(at);
            omitted += 1;
        }
    }
    Fitted {
        devices: kept,
        omitted,
        shortened,
    }
}

fn sizes(devices: &[Device]) -> Vec<usize> {
    devices.iter().map(bytes).collect()
}

/// Bytes of a device in a list.
fn bytes(device: &Device) -> usize {
    // A device of plain values is always written.
    serde_json::to_vec(device).map_or(0, |text| text.len()) + 1
}
