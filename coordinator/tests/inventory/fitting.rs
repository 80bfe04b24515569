//! Devices made to fit.

use hypercloud_coordinator::inventory::fit::{LIMIT, fit};
use hypercloud_inventory::Device;
use proptest::prelude::*;

use super::devices::{device, large};

fn size(devices: &[Device]) -> usize {
    serde_json::to_vec(devices).unwrap().len()
}

#[test]
fn five_hundred_devices_fit_as_they_are() {
    let devices: Vec<Device> = (0..500)
        .map(|n| large(&format!("sd{n}"), n % 3 == 0))
        .collect();
    let fitted = fit(&devices, LIMIT);
    assert_eq!(fitted.devices, devices);
    assert!(!fitted.shortened && fitted.omitted == 0);
    assert!(size(&devices) > LIMIT / 3, "{}", size(&devices));
}

#[test]
fn links_go_first_then_what_is_taken_from_the_end() {
    let devices: Vec<Device> = (0..10)
        .map(|n| large(&format!("sd{n}"), n % 2 == 0))
        .collect();
    let short: Vec<Device> = devices
        .iter()
        .cloned()
        .map(|mut device| {
            device.identity.links.clear();
            device
        })
        .collect();
    let fitted = fit(&devices, size(&short));
    assert!(fitted.shortened && fitted.omitted == 0);
    assert_eq!(fitted.devices, short);

    // Of the brackets and the last comma nothing is known there.
    let fitted = fit(&devices, size(&short) - 2);
    let left: Vec<&str> = fitted.devices.iter().map(|d| d.name.as_str()).collect();
    let expected = [
        "sd0", "sd1", "sd2", "sd3", "sd4", "sd5", "sd6", "sd7", "sd8",
    ];
    assert_eq!((left.as_slice(), fitted.omitted), (&expected[..], 1));

    let fitted = fit(&devices, size(&short) / 2 - 600);
    let left: Vec<&str> = fitted.devices.iter().map(|d| d.name.as_str()).collect();
    assert!(
        left.iter()
            .all(|name| ["sd0", "sd2", "sd4", "sd6"].contains(name))
    );
    assert_eq!(fitted.omitted, 10 - left.len());
}

proptest! {
    #[test]
    fn it_always_fits_and_nothing_else_is_lost(
        kinds in prop::collection::vec((any::<bool>(), any::<bool>(), 0usize..400), 0..60),
        limit in 2usize..60_000,
    ) {
        let devices: Vec<Device> = kinds
            .iter()
            .enumerate()
            .map(|(n, (available, many, text))| {
                let name = format!("sd{n}");
                let mut made = if *many { large(&name, *available) } else { device(&name, *available) };
                made.model = Some("m".repeat(*text));
                made
            })
            .collect();
        let fitted = fit(&devices, limit);
        prop_assert!(size(&fitted.devices) <= limit.max(2) + 1);
        prop_assert_eq!(fitted.devices.len() + fitted.omitted, devices.len());
        if size(&devices) < limit {
            prop_assert_eq!(&fitted.devices, &devices);
        }
        prop_assert!(fitted.omitted == 0 || fitted.shortened);
        // Available ones go only when no other is left.
        let lost = devices.iter().filter(|d| d.available).count()
            - fitted.devices.iter().filter(|d| d.available).count();
        prop_assert!(lost == 0 || fitted.devices.iter().all(|d| d.available));
        // Order, and everything but the links.
        let mut rest = devices.iter();
        for kept in &fitted.devices {
            let whole = rest.find(|device| device.name == kept.name).unwrap();
            let mut expected = whole.clone();
            if fitted.shortened {
                expected.identity.links.clear();
            }
            prop_assert_eq!(&expected, kept);
        }
    }
}
