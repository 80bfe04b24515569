//! Many devices: a record of a node that has them, and what a walk of them and
//! its classification cost the processor.
//!
//! The record has what a node has: sysfs, udev's database, the mount table and
//! the links to the devices. With files in place of the devices, `lsblk
//! --sysroot` reads it too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Parser, Subcommand};
use hypercloud_inventory::{Policy, Prober, SignatureSource, Tree, classify, walk};
use rustix::time::{ClockId, clock_gettime};

/// Make a record of a node with many devices, or walk one.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a record of a node
    Make {
        /// Where; the folder has to be empty or not to be there
        folder: PathBuf,
        /// How many devices the node has
        devices: usize,
        /// Put files in place of the devices, which lsblk reads
        #[arg(long)]
        files: bool,
    },
    /// Walk a node; print how many devices it has, and the milliseconds of
    /// processor time that this took
    Walk {
        /// The record; this node, with its devices opened, where it is `/`
        folder: PathBuf,
    },
}

/// Of ten disks one has this many partitions.
const PARTITIONS: usize = 2;
/// Mounts of a node with some pods.
const MOUNTS: usize = 200;

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Make {
            folder,
            devices,
            files,
        } => make(&folder, devices, files),
        Command::Walk { folder } => walked(&folder),
    }
}

fn walked(folder: &Path) -> anyhow::Result<()> {
    let tree = if folder == Path::new("/") {
        Tree::live()
    } else {
        Tree::recorded(folder)
    };
    // What is loaded once is not the walk's.
    let prober = Prober::new(SignatureSource::UdevFirst);
    let begun = processor_time();
    let inventory = classify(&walk(&tree, &prober)?, &Policy::default());
    let spent = processor_time() - begun;
    println!("{} {:.2}", inventory.devices.len(), spent * 1e3);
    Ok(())
}

/// Seconds of processor time that this process has had, with all its threads.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A node that is written down.
struct Record {
    root: PathBuf,
    files: bool,
}

fn make(root: &Path, devices: usize, files: bool) -> anyhow::Result<()> {
    let record = Record {
        root: root.to_owned(),
        files,
    };
    let mut mounts = String::from("22 27 0:21 / /proc rw - proc proc rw\n");
    for pod in 0..MOUNTS {
        mounts += &format!(
            "{} 27 0:{} / /var/lib/kubelet/pods/{pod:036}/volumes rw shared:{pod} - tmpfs tmpfs rw\n",
            pod + 100,
            pod + 60
        );
    }
    record.write("proc/1/mountinfo", &mounts)?;
    record.write("proc/self/mountinfo", &mounts)?;
    record.write("proc/swaps", "Filename Type Size Used Priority\n")?;
    record.write("proc/sys/kernel/hostname", "node-1\n")?;
    record.write("proc/sys/kernel/random/boot_id", "11111111-2222\n")?;
    for folder in [
        "sys/block",
        "sys/class/block",
        "sys/dev/block",
        "dev/disk/by-id",
    ] {
        fs::create_dir_all(root.join(folder))?;
    }
    let mut made = 0;
    let mut disks = 0;
    while made < devices {
        let disk = Disk::numbered(disks);
        record.disk(&disk)?;
        made += 1;
        let parts = if disks % 10 == 0 { PARTITIONS } else { 0 };
        for part in 1..=parts.min(devices - made) {
            record.partition(&disk, part)?;
            made += 1;
        }
        disks += 1;
    }
    Ok(())
}

/// A SATA disk.
struct Disk {
    number: usize,
    name: String,
    /// Below `sys`.
    below: String,
}

impl Disk {
    fn numbered(number: usize) -> Self {
        let mut name = String::new();
        let mut rest = number + 1;
        while rest > 0 {
            let letter = u8::try_from((rest - 1) % 26).unwrap_or_default();
            name.insert(0, char::from(b'a' + letter));
            rest = (rest - 1) / 26;
        }
        let name = format!("sd{name}");
        let port = number + 1;
        Self {
            below: format!(
                "devices/pci0000:00/0000:00:17.0/ata{port}/host{port}/target{port}:0:0/{port}:0:0:0/block/{name}"
            ),
            number,
            name,
        }
    }

    fn device(&self, part: usize) -> String {
        let (major, minor) = (self.number / 16, self.number % 16 * 16 + part);
        let major = match major {
            0 => 8,
            more => 64 + more,
        };
        format!("{major}:{minor}")
    }
}

impl Record {
    fn write(&self, path: &str, text: &str) -> anyhow::Result<()> {
        let path = self.root.join(path);
        let folder = path.parent().context("a file has a folder")?;
        fs::create_dir_all(folder)?;
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    fn disk(&self, disk: &Disk) -> anyhow::Result<()> {
        let (name, below) = (&disk.name, &disk.below);
        let wwn = format!("5000c500{:08x}", disk.number);
        for (attribute, text) in [
            ("removable", "0"),
            ("hidden", "0"),
            ("diskseq", &(disk.number + 1).to_string()),
            ("alignment_offset", "0"),
            ("discard_alignment", "0"),
            ("range", "16"),
            ("ext_range", "256"),
            ("queue/rotational", "1"),
            ("queue/logical_block_size", "512"),
            ("queue/physical_block_size", "4096"),
            ("queue/minimum_io_size", "4096"),
            ("queue/optimal_io_size", "0"),
            ("queue/discard_max_bytes", "0"),
            ("queue/discard_granularity", "0"),
            ("queue/scheduler", "[mq-deadline] none"),
            ("queue/nr_requests", "64"),
            ("queue/read_ahead_kb", "128"),
            ("queue/add_random", "0"),
            ("queue/write_same_max_bytes", "0"),
            ("queue/zoned", "none"),
        ] {
            self.write(&format!("sys/{below}/{attribute}"), &format!("{text}\n"))?;
        }
        let hardware = Path::new(below.as_str()).ancestors().nth(2);
        let hardware = hardware.context("a disk has hardware")?.display();
        for (attribute, text) in [
            ("model", "DISK-18000"),
            ("vendor", "ATA     "),
            ("rev", "A1B2"),
            ("type", "0"),
            ("state", "running"),
            ("wwid", &format!("naa.{wwn}")),
        ] {
            self.write(&format!("sys/{hardware}/{attribute}"), &format!("{text}\n"))?;
        }
        symlink("../..", self.root.join("sys").join(below).join("device"))?;
        let links = [format!("wwn-0x{wwn}"), format!("ata-DISK-18000_S{wwn}")];
        let about = format!(
            "E:ID_BUS=ata\nE:ID_TYPE=disk\nE:ID_MODEL=DISK-18000\nE:ID_REVISION=A1B2\n\
             E:ID_SERIAL=DISK-18000_S{wwn}\nE:ID_SERIAL_SHORT=S{wwn}\nE:ID_WWN=0x{wwn}\n\
             E:ID_PATH=pci-0000:00:17.0-ata-{}\nG:systemd\nQ:systemd\nV:1\n",
            disk.number + 1
        );
        self.device(below, name, &disk.device(0), 36_000_000_000, &links, &about)?;
        symlink(
            format!("../{below}"),
            self.root.join("sys/block").join(name),
        )?;
        Ok(())
    }

    fn partition(&self, disk: &Disk, part: usize) -> anyhow::Result<()> {
        let name = format!("{}{part}", disk.name);
        let below = format!("{}/{name}", disk.below);
        self.write(&format!("sys/{below}/partition"), &format!("{part}\n"))?;
        self.write(&format!("sys/{below}/start"), &format!("{}\n", part * 2048))?;
        let links = [format!("wwn-0x5000c500{:08x}-part{part}", disk.number)];
        let about = "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\nE:ID_PART_ENTRY_SCHEME=gpt\n";
        self.device(&below, &name, &disk.device(part), 20_000_000, &links, about)
    }

    /// What disks and partitions have alike.
    fn device(
        &self,
        below: &str,
        name: &str,
        number: &str,
        sectors: u64,
        links: &[String],
        about: &str,
    ) -> anyhow::Result<()> {
        let kind = if below.ends_with(&format!("block/{name}")) {
            "disk"
        } else {
            "partition"
        };
        let (major, minor) = number.split_once(':').context("a number has two parts")?;
        for (attribute, text) in [
            ("dev", number.to_owned()),
            ("size", sectors.to_string()),
            ("ro", "0".to_owned()),
            (
                "uevent",
                format!("MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\nDEVTYPE={kind}"),
            ),
        ] {
            self.write(&format!("sys/{below}/{attribute}"), &format!("{text}\n"))?;
        }
        for folder in ["holders", "slaves"] {
            fs::create_dir_all(self.root.join("sys").join(below).join(folder))?;
        }
        let mut database = String::new();
        for link in links {
            database += &format!("S:disk/by-id/{link}\n");
            let path = self.root.join("dev/disk/by-id").join(link);
            symlink(format!("../../{name}"), path)?;
        }
        database += &format!("I:1234567\n{about}");
        self.write(&format!("run/udev/data/b{number}"), &database)?;
        for list in ["sys/class/block", "sys/dev/block"] {
            let name = if list.ends_with("dev/block") {
                number
            } else {
                name
            };
            symlink(format!("../../{below}"), self.root.join(list).join(name))?;
        }
        if self.files {
            let known = about.lines().filter_map(|line| line.strip_prefix("E:"));
            let text: String = known.map(|line| format!("{line}\n")).collect();
            self.write(&format!("dev/{name}"), &text)?;
        }
        Ok(())
    }
}
