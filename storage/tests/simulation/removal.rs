//! Devices that are given up.

use super::*;

#[test]
fn a_device_that_is_given_up_goes_after_its_data() {
    let mut world = installed(NEW);
    world.change(|s| s.storage = spec(NEW, &["a", "b", "c", "d"]).storage);
    until(&mut world, StorageState::Ok);
    world.change(|s| {
        s.storage = spec(NEW, &["a", "b", "c"]).storage;
        s.storage.removal = Some(hypercloud_api::RemovalPolicy::PurgeOsds);
    });
    until(&mut world, StorageState::Ok);
    assert_eq!(world.devices().len(), 3);
    let osds = |world: &World| world.osds.iter().filter(|osd| osd.runs).count();
    assert_eq!(osds(&world), 3);
    assert!(world.resource.status.clone().unwrap().removing.is_empty());
    // What is left could not hold the copies.
    world.change(|s| s.storage.nodes.truncate(2));
    until(&mut world, StorageState::Error);
    assert_eq!((world.devices().len(), osds(&world)), (3, 3));
}

#[test]
fn a_device_that_is_wanted_again_stays() {
    let goes_on = |world: &mut World, done: fn(&World) -> bool| {
        for _ in 0..50 {
            if done(world) {
                return;
            }
            world.coordinate(ALL);
            world.live();
            world.pass(5);
        }
        panic!("{:?} {}", world.osds, world.message());
    };
    let has_four = |world: &World| {
        let serving = world.osds.iter().filter(|osd| osd.is_in && osd.runs);
        let status = world.resource.status.clone().unwrap_or_default();
        serving.count() == 4 && world.devices().len() == 4 && status.removing.is_empty()
    };
    let mut world = installed(NEW);
    let four = spec(NEW, &["a", "b", "c", "d"]).storage;
    world.change(|s| s.storage = four.clone());
    goes_on(&mut world, has_four);
    world.change(|s| {
        s.storage.nodes.pop();
        s.storage.removal = Some(hypercloud_api::RemovalPolicy::PurgeOsds);
    });
    goes_on(&mut world, |world| {
        world.osds.iter().any(|osd| !osd.is_in) && world.devices().len() == 3
    });
    world.change(|s| s.storage.nodes.clone_from(&four.nodes));
    goes_on(&mut world, has_four);
    until(&mut world, StorageState::Ok);
    assert!(has_four(&world));
}
