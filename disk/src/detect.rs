//! Which format a source is, by its first bytes.
//!
//! Names and media types are never asked: only magic numbers. What is not
//! recognised is raw, as are ISO images and disks with an MBR or GPT. Formats
//! that would need decoding this version lacks are refused by their name, as
//! importing them as raw would give a disk that does not boot.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Refusal;

/// How many first bytes [`detect`] wants to see; fewer only when the source
/// is shorter.
pub const HEAD: usize = 4096;

/// A format that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageFormat {
    /// The disk's bytes as they are.
    Raw,
    /// QEMU's copy-on-write format, versions 2 and 3.
    Qcow2,
}

impl fmt::Display for ImageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        })
    }
}

/// What a source is packed with, around the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// gzip (RFC 1952).
    Gzip,
    /// xz.
    Xz,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl Packing {
    /// What a source is packed with that begins with `head`.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Self> {
        match magic(head) {
            Some(Foreign::Packed(packing)) => Some(packing),
            _ => None,
        }
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        })
    }
}

/// A recognised format that is not imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Foreign {
    /// Version 1 of QEMU's format.
    Qcow1,
    /// A qcow2 image; foreign only where a raw disk must not look like one.
    Qcow2,
    /// QEMU's enhanced disk.
    Qed,
    /// VMware's disk, sparse, ESX or descriptor.
    Vmdk,
    /// Microsoft's older disk (dynamic; a fixed one has no head magic).
    Vhd,
    /// Microsoft's newer disk.
    Vhdx,
    /// VirtualBox's disk.
    Vdi,
    /// Parallels' disk.
    Parallels,
    /// Bochs' growing disk.
    Bochs,
    /// cloop.
    Cloop,
    /// A LUKS container.
    Luks,
    /// A packed file; foreign only within another one.
    Packed(Packing),
    /// bzip2.
    Bzip2,
    /// zip.
    Zip,
    /// 7-Zip.
    SevenZip,
    /// LZ4 frames.
    Lz4,
    /// tar, as in OVA appliances.
    Tar,
}

impl Foreign {
    /// What to do with a source of this format.
    #[must_use]
    pub fn hint(self) -> &'static str {
        match self {
            Self::Packed(_) | Self::Bzip2 | Self::Zip | Self::SevenZip | Self::Lz4 => {
                "unpack it first"
            }
            Self::Tar => "unpack it and import the disk inside",
            Self::Luks => "decrypt it first",
            _ => "convert it with qemu-img convert -O qcow2 IN OUT",
        }
    }

    /// Whether QEMU's own probing knows the format, so that a raw disk that
    /// begins like it would be misread.
    fn is_probed_by_qemu(self) -> bool {
        !matches!(
            self,
            Self::Packed(_) | Self::Bzip2 | Self::Zip | Self::SevenZip | Self::Lz4 | Self::Tar
        )
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Qcow1 => "qcow version 1",
            Self::Qcow2 => "qcow2",
            Self::Qed => "QED",
            Self::Vmdk => "VMDK",
            Self::Vhd => "VHD",
            Self::Vhdx => "VHDX",
            Self::Vdi => "VDI",
            Self::Parallels => "a Parallels disk",
            Self::Bochs => "a Bochs disk",
            Self::Cloop => "a compressed loop image",
            Self::Luks => "a LUKS container",
            Self::Packed(packing) => return packing.fmt(f),
            Self::Bzip2 => "bzip2",
            Self::Zip => "zip",
            Self::SevenZip => "7-Zip",
            Self::Lz4 => "LZ4",
            Self::Tar => "a tar archive",
        })
    }
}

/// The magic numbers, with where they stand.
const MAGICS: &[(usize, &[u8], Foreign)] = &[
    (0, b"QFI\xfb\0\0\0\x01", Foreign::Qcow1),
    (0, b"QFI\xfb", Foreign::Qcow2),
    (0, b"QED\0", Foreign::Qed),
    (0, b"KDMV", Foreign::Vmdk),
    (0, b"COWD", Foreign::Vmdk),
    (0, b"# Disk DescriptorFile", Foreign::Vmdk),
    (0, b"conectix", Foreign::Vhd),
    (0, b"vhdxfile", Foreign::Vhdx),
    (0x40, b"\x7f\x10\xda\xbe", Foreign::Vdi),
    (0, b"WithoutFreeSpace", Foreign::Parallels),
    (0, b"WithouFreSpacExt", Foreign::Parallels),
    (0, b"Bochs Virtual HD Image", Foreign::Bochs),
    (0, b"#!/bin/sh\n#V2.0 Format\n", Foreign::Cloop),
    (0, b"LUKS\xba\xbe", Foreign::Luks),
    (0, b"\x1f\x8b", Foreign::Packed(Packing::Gzip)),
    (0, b"\xfd7zXZ\0", Foreign::Packed(Packing::Xz)),
    (0, b"\x28\xb5\x2f\xfd", Foreign::Packed(Packing::Zstd)),
    (0, b"BZh", Foreign::Bzip2),
    (0, b"PK\x03\x04", Foreign::Zip),
    (0, b"7z\xbc\xaf\x27\x1c", Foreign::SevenZip),
    (0, b"\x04\x22\x4d\x18", Foreign::Lz4),
    (257, b"ustar", Foreign::Tar),
];

fn magic(head: &[u8]) -> Option<Foreign> {
    MAGICS
        .iter()
        .find(|(at, bytes, _)| head.get(*at..).is_some_and(|rest| rest.starts_with(bytes)))
        .map(|(_, _, foreign)| *foreign)
        .or_else(|| is_skippable(head).then_some(Foreign::Packed(Packing::Zstd)))
        .or_else(|| is_vmdk_text(head).then_some(Foreign::Vmdk))
}

/// Whether the bytes begin with one of Zstandard's skippable frames, as what
/// several threads packed does.
fn is_skippable(head: &[u8]) -> bool {
    matches!(head, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Whether QEMU would take the bytes for a VMDK descriptor, which can name
/// any file of the host as its extent: comments and blank lines, however
/// many, then a version.
fn is_vmdk_text(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .find(|line| !line.is_empty() && !line.starts_with(b"#"))
        .and_then(|line| line.get(..8))
        .is_some_and(|start| start.eq_ignore_ascii_case(b"version="))
}

/// Whether the bytes begin like a page for a browser or an XML error answer.
#[must_use]
pub fn is_web_page(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let text = text.trim_ascii_start();
    [&b"<!doctype html"[..], b"<html", b"<?xml", b"<error"]
        .iter()
        .any(|tag| {
            text.get(..tag.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(tag))
        })
}

/// The format of what begins with `head` ([`HEAD`] bytes, or all of a shorter
/// source): of a source that is not packed, or of what is packed in it.
///
/// # Errors
/// A [`Refusal`] for an empty source, a web page and the formats that are
/// recognised and not imported, of which a packed file is one: whether a
/// source is packed is asked before, by [`Packing::detect`].
pub fn detect(head: &[u8]) -> Result<ImageFormat, Refusal> {
    if head.is_empty() {
        return Err(Refusal::Empty);
    }
    match magic(head) {
        Some(Foreign::Qcow2) => Ok(ImageFormat::Qcow2),
        Some(foreign) => Err(Refusal::ForeignFormat(foreign)),
        None if is_web_page(head) => Err(Refusal::WebPage),
        None => Ok(ImageFormat::Raw),
    }
}

/// Judges a finished disk by its first bytes: one that QEMU would probe as
/// something other than raw is refused.
///
/// # Errors
/// [`Refusal::Masquerade`].
pub fn judge_disk(head: &[u8]) -> Result<(), Refusal> {
    match magic(head) {
        Some(foreign) if foreign.is_probed_by_qemu() => Err(Refusal::Masquerade(foreign)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(at: usize, magic: &[u8]) -> Vec<u8> {
        let mut head = vec![0; HEAD];
        head[at..at + magic.len()].copy_from_slice(magic);
        head
    }

    #[test]
    fn a_descriptor_behind_comments_is_a_vmdk_still() {
        for text in [
            "# x\nversion=1\nRW 8 FLAT \"/etc/hostname\" 0\n",
            "# x\r\n\r\n  \n#\nversion=3\r\n",
            "version=2\n",
        ] {
            let head = head(0, text.as_bytes());
            assert_eq!(
                judge_disk(&head),
                Err(Refusal::Masquerade(Foreign::Vmdk)),
                "{text:?}"
            );
            assert!(detect(&head).is_err(), "{text:?}");
        }
        for text in ["# only words\n", "conversion=1\n", "# x\nver"] {
            assert_eq!(judge_disk(&head(0, text.as_bytes())), Ok(()), "{text:?}");
        }
    }

    #[test]
    fn qcow2_and_raw_are_taken() {
        assert_eq!(
            detect(&head(0, b"QFI\xfb\0\0\0\x03")),
            Ok(ImageFormat::Qcow2)
        );
        assert_eq!(detect(&head(510, b"\x55\xaa")), Ok(ImageFormat::Raw));
        assert_eq!(detect(b"x"), Ok(ImageFormat::Raw));
    }

    #[test]
    fn packings_are_recognised() {
        for (bytes, packing) in [
            (&b"\x1f\x8b\x08\0"[..], Some(Packing::Gzip)),
            (b"\xfd7zXZ\0\0\x04", Some(Packing::Xz)),
            (b"\x28\xb5\x2f\xfd", Some(Packing::Zstd)),
            (b"\x5f\x2a\x4d\x18", Some(Packing::Zstd)),
            (b"\x60\x2a\x4d\x18", None),
            (b"QFI\xfb\0\0\0\x03", None),
            (b"\x1f", None),
        ] {
            assert_eq!(Packing::detect(bytes), packing, "{bytes:?}");
        }
    }

    #[test]
    fn every_other_magic_is_refused_by_name() {
        for (at, bytes, foreign) in MAGICS {
            if *foreign != Foreign::Qcow2 {
                assert_eq!(
                    detect(&head(*at, bytes)),
                    Err(Refusal::ForeignFormat(*foreign))
                );
            }
        }
    }

    #[test]
    fn pages_are_told_apart() {
        for page in [
            "<!DOCTYPE html><html>",
            "\u{feff}\n <HTML>",
            "<?xml version=\"1.0\"?><Error>",
        ] {
            assert_eq!(detect(page.as_bytes()), Err(Refusal::WebPage), "{page}");
        }
        assert_eq!(detect(b"<h"), Ok(ImageFormat::Raw));
    }

    #[test]
    fn an_empty_source_is_refused() {
        assert_eq!(detect(b""), Err(Refusal::Empty));
    }

    #[test]
    fn a_disk_that_begins_like_an_image_is_refused_but_not_one_like_an_archive() {
        assert_eq!(
            judge_disk(&head(0, b"QFI\xfb")),
            Err(Refusal::Masquerade(Foreign::Qcow2))
        );
        assert_eq!(
            judge_disk(&head(0, b"KDMV")),
            Err(Refusal::Masquerade(Foreign::Vmdk))
        );
        assert_eq!(judge_disk(&head(0, b"\x1f\x8b")), Ok(()));
        assert_eq!(judge_disk(&head(0, b"<html>")), Ok(()));
    }
}
