//! udev's database: one text file for each device.
//!
//! `S:` is a link, `E:` a property; `I:` is there once udev is done with it.

use super::folder::Folder;
use crate::snapshot::{Number, Seen, UdevRecord};

/// The record of a block device, in the folder of all records.
pub(super) fn record(database: &Folder, number: Number) -> Option<UdevRecord> {
    let name = format!("b{}:{}", number.major, number.minor);
    Some(parse(&database.text(&name)?))
}

/// The kernel's number of the disk that a record is of: a link has it.
pub(super) fn disk_sequence(record: &UdevRecord) -> Option<u64> {
    let numbers = record.links.iter().filter_map(|link| {
        let number = link.strip_prefix("/dev/disk/by-diskseq/")?;
        number.split('-').next()?.parse().ok()
    });
    numbers.max()
}

fn parse(text: &str) -> UdevRecord {
    let mut record = UdevRecord::default();
    for line in text.lines() {
        match line.split_once(':') {
            Some(("S", link)) => record.links.push(format!("/dev/{link}")),
            Some(("I", _)) => record.initialized = true,
            Some(("E", property)) => {
                if let Some((name, value)) = property.split_once('=') {
                    record.properties.insert(name.to_owned(), value.to_owned());
                }
            }
            _ => {}
        }
    }
    record
}

/// Fills what sysfs did not tell. udev's model is preferred: it is whole where
/// SCSI cuts at 16 characters.
pub(super) fn fill(device: &mut Seen, record: &UdevRecord) {
    let of = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| record.property(name))
            .map(unescaped)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    let prefer = |ours: &mut Option<String>, names: &[&str]| {
        if let Some(theirs) = of(names) {
            *ours = Some(theirs);
        }
    };
    prefer(&mut device.model, &["ID_MODEL_ENC", "ID_MODEL"]);
    prefer(
        &mut device.serial,
        &["ID_SCSI_SERIAL", "ID_SERIAL_SHORT", "ID_SERIAL"],
    );
    prefer(&mut device.wwn, &["ID_WWN_WITH_EXTENSION", "ID_WWN"]);
    if device.disk.is_some() {
        prefer(&mut device.partition_label, &["ID_PART_ENTRY_NAME"]);
        prefer(&mut device.partition_type, &["ID_PART_ENTRY_TYPE"]);
    }
    if device.vendor.is_none() || device.vendor.as_deref() == Some("ATA") {
        prefer(&mut device.vendor, &["ID_VENDOR_ENC", "ID_VENDOR"]);
    }
    if device.firmware.is_none() {
        prefer(&mut device.firmware, &["ID_REVISION"]);
    }
    if record.property("ID_BUS") == Some("usb") {
        device.transport = Some(crate::snapshot::Transport::Usb);
    }
    if let (Some(mapper), Some(name)) = (&mut device.mapper, record.property("DM_NAME"))
        && mapper.name.is_empty()
    {
        mapper.name = name.to_owned();
    }
}

/// Undoes `\x20`, as udev writes what is not plain.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = rest
            .get(..4)
            .filter(|code| code.starts_with(b"\\x"))
            .and_then(|code| std::str::from_utf8(&code[2..]).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = code {
            out.push(byte);
            rest = &rest[4..];
        } else {
            out.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_line_by_line() {
        let record = parse(
            "S:disk/by-id/wwn-0x5\nI:12\nE:ID_MODEL=A=B\nE:ID_FS_TYPE=\nG:systemd\nnonsense\n",
        );
        assert!(record.initialized);
        assert_eq!(record.links, ["/dev/disk/by-id/wwn-0x5"]);
        assert_eq!(record.property("ID_MODEL"), Some("A=B"));
        assert_eq!(record.property("ID_FS_TYPE"), None);
    }

    #[test]
    fn what_udev_wrote_as_codes_is_read_as_text() {
        assert_eq!(unescaped(r"Virtual\x20CDROM0\x2"), r"Virtual CDROM0\x2");
        assert_eq!(unescaped("\\x\u{e9}\u{e9}"), "\\x\u{e9}\u{e9}");
    }
}
