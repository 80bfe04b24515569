//! What a device holds: partitions, signatures, labels.

use super::kind;
use super::world::World;
use crate::inventory::Kind;
use crate::policy::Policy;
use crate::probe::read_by_udev;
use crate::reason::Reason;
use crate::snapshot::{Probe, Seen, Signature, UdevRecord, Usage};

/// What was read of a device, from it or from udev.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) signatures: Vec<Signature>,
    ambiguous: bool,
    bluestore: Vec<u64>,
    known: bool,
}

impl Contents {
    /// The device's own word is newer than udev's.
    pub(super) fn of(seen: &Seen) -> Self {
        let mut contents = match &seen.probe {
            Probe::Made(look) => Self {
                signatures: look.signatures.clone().unwrap_or_default(),
                bluestore: look.bluestore.clone(),
                known: look.signatures.is_some(),
                ambiguous: false,
            },
            Probe::NotMade | Probe::Failed(_) => Self::default(),
        };
        if !contents.known
            && let Some(record) = &seen.udev
        {
            contents.known = read_by_udev(seen);
            contents.signatures.extend(recorded(seen, record));
            contents.ambiguous = record.property("ID_FS_AMBIVALENT").is_some();
        }
        contents
    }

    fn table(&self) -> Option<&str> {
        self.signatures
            .iter()
            .find(|signature| signature.usage == Usage::PartitionTable)
            .map(|signature| signature.kind.as_str())
    }

    fn has_bluestore(&self) -> bool {
        !self.bluestore.is_empty()
            || self
                .signatures
                .iter()
                .any(|signature| signature.kind == "ceph_bluestore")
    }
}

/// Signatures as udev's database has them. A partition's record repeats the
/// table of its disk.
fn recorded(seen: &Seen, record: &UdevRecord) -> Vec<Signature> {
    let of = |name: &str| record.property(name).map(str::to_owned);
    let file_system = of("ID_FS_TYPE").map(|kind| Signature {
        kind,
        usage: Usage::from_word(record.property("ID_FS_USAGE").unwrap_or_default()),
        label: of("ID_FS_LABEL"),
    });
    let table = of("ID_PART_TABLE_TYPE")
        .filter(|_| seen.disk.is_none())
        .map(|kind| Signature {
            kind,
            usage: Usage::PartitionTable,
            label: None,
        });
    file_system.into_iter().chain(table).collect()
}

pub(super) fn reasons(world: &World<'_>, policy: &Policy, seen: &Seen) -> Vec<Reason> {
    let contents = Contents::of(seen);
    let mut reasons: Vec<Reason> = contents.signatures.iter().map(meaning).collect();
    if contents.ambiguous {
        reasons.push(Reason::AmbiguousSignatures);
    }
    reasons.extend(
        contents
            .bluestore
            .iter()
            .map(|&offset| Reason::BlueStore { offset }),
    );
    let names: Vec<&str> = world
        .partitions(seen)
        .map(|partition| partition.name.as_str())
        .collect();
    if !names.is_empty() {
        let names = names.join(", ");
        // rook#7734: noise may look like a table of an Atari.
        let phantom =
            contents.has_bluestore() && contents.table().is_none_or(|kind| kind == "atari");
        reasons.push(if phantom {
            Reason::PhantomPartitions { names }
        } else {
            Reason::Partitioned { names }
        });
    }
    if let Some(what) = reserved(seen) {
        reasons.push(Reason::ReservedPartition { what });
    }
    if !contents.known && is_expected(policy, seen) {
        reasons.push(Reason::Unknown {
            what: "what it holds".into(),
        });
    }
    reasons
}

/// Kinds that are not read.
const UNREAD: &[Kind] = &[
    Kind::Optical,
    Kind::Floppy,
    Kind::Rbd,
    Kind::Nbd,
    Kind::Zvol,
    Kind::Drbd,
    Kind::Ram,
    Kind::Zram,
];

/// Whether a device is one that has to be read.
fn is_expected(policy: &Policy, seen: &Seen) -> bool {
    let kind = kind::of(seen);
    let unread = UNREAD.contains(&kind) && !policy.kinds.contains(&kind);
    !seen.hidden && seen.size != Some(0) && !unread && !matches!(seen.probe, Probe::Failed(_))
}

fn meaning(signature: &Signature) -> Reason {
    let kind = signature.kind.clone();
    match kind.as_str() {
        "LVM1_member" | "LVM2_member" => Reason::LvmMember,
        "crypto_LUKS" | "BitLocker" | "FVE" => Reason::EncryptedData { kind },
        "ceph_bluestore" => Reason::BlueStore { offset: 0 },
        "zfs_member" => Reason::ZfsMember,
        "bcache" => Reason::BcacheMember,
        "vdo" => Reason::VdoMember,
        "drbd" | "drbdmanage_control_volume" | "drbdproxy_datalog" => Reason::DrbdMember,
        "swap" | "swsuspend" => Reason::SwapSpace,
        kind if kind.ends_with("_raid_member") => Reason::RaidMember {
            kind: kind.to_owned(),
        },
        _ => match signature.usage {
            Usage::FileSystem => Reason::FileSystem {
                kind,
                label: signature.label.clone(),
            },
            Usage::PartitionTable => Reason::PartitionTable { kind },
            Usage::Crypto => Reason::EncryptedData { kind },
            Usage::Raid | Usage::Other => Reason::OtherSignature { kind },
        },
    }
}

const EXTENDED: &str = "extended: it holds other partitions";

/// The kernel gives an extended partition no more than this, whatever its size.
const LARGEST_EXTENDED: u64 = 4096;

/// Types of partitions that machines boot from or that hold others, as GPT and
/// DOS tables have them.
const RESERVED: &[(&str, &str)] = &[
    ("21686148-6449-6e6f-744e-656564454649", "BIOS boot"),
    ("c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "EFI system"),
    ("0xef", "EFI system"),
    ("e3c9e316-0b5c-4db8-817d-f92df00215ae", "Microsoft reserved"),
    ("9e1a2d38-c612-4316-aa26-8b49521e5a8b", "PReP boot"),
    ("0x41", "PReP boot"),
    ("0x5", EXTENDED),
    ("0xf", EXTENDED),
    ("0x85", EXTENDED),
    (
        "bc13c2ff-59e6-4262-a352-b275fd6f7172",
        "extended boot loader",
    ),
];

/// Words in labels of partitions that are somebody's on purpose.
const LABELS: &[&str] = &["bios", "boot", "efi", "reserved"];

fn reserved(seen: &Seen) -> Option<String> {
    let kind = seen.partition_type.as_deref().map(str::to_lowercase);
    let by_type = RESERVED
        .iter()
        .find(|(code, _)| kind.as_deref() == Some(code))
        .map(|(_, what)| (*what).to_owned());
    let is_small = seen.size.is_some_and(|size| size <= LARGEST_EXTENDED);
    if by_type.is_none() && seen.disk.is_some() && is_small {
        return Some(EXTENDED.into());
    }
    by_type.or_else(|| {
        let label = seen.partition_label.as_ref()?;
        let plain = label.to_lowercase();
        LABELS
            .iter()
            .any(|word| plain.contains(word))
            .then(|| format!("labelled {label}"))
    })
}
