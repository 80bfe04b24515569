//! What a look at a large node costs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod machine;

use std::time::{Duration, Instant};

use hypercloud_inventory::{Policy, Prober, SignatureSource, Tree, classify, walk};
use machine::Machine;

/// Time that this thread had a core for; a recorded tree needs no other.
fn used() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = text.split(' ').next().unwrap().parse().unwrap();
    Duration::from_nanos(nanoseconds)
}

#[test]
fn five_hundred_disks_are_looked_at_in_no_time() {
    let machine = Machine::new();
    for index in 0..500 {
        let letters: Vec<char> = ('a'..='z').collect();
        let name: String = ['s', 'd', letters[index / 26 % 26], letters[index % 26]]
            .into_iter()
            .collect();
        let number = format!("{}:{}", 65 + index / 16, index % 16 * 16);
        let disk = machine.sata(&name, &number, &format!("5000c500{index:08x}"));
        disk.udev(&["E:ID_MODEL=DISK-4000", "E:ID_REVISION=A1", "E:ID_ATA=1"]);
    }
    let tree = Tree::recorded(machine.root());
    let prober = Prober::new(SignatureSource::UdevFirst);
    let mut times = Vec::new();
    for _ in 0..10 {
        let (cpu, wall) = (used(), Instant::now());
        let snapshot = walk(&tree, &prober).unwrap();
        let walked = used() - cpu;
        let inventory = classify(&snapshot, &Policy::default());
        times.push((used() - cpu, walked, wall.elapsed()));
        assert_eq!(inventory.available().count(), 500);
    }
    times.sort();
    let (whole, walked, wall) = times[times.len() / 2];
    let least = times[0].0;
    println!(
        "500 disks: {whole:?} of a core ({least:?} at least), {walked:?} of it for the walk, in {wall:?}"
    );
    // Several times what it takes where nothing else runs.
    assert!(least < Duration::from_millis(150), "{times:?}");
}
