//! libblkid, loaded at run time: every Linux has it, and building needs neither
//! its headers nor a generator of bindings.
//!
//! Signatures are looked for as `wipefs` does: all of them rather than the one
//! that wins, with broken checksums too, and the partition table's copy at the
//! device's end.

use std::ffi::{CStr, c_char, c_int};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::ptr;

use libloading::{Library, Symbol};

use super::Leftover;
use crate::snapshot::{Signature, Usage};

const LIBRARY: &str = "libblkid.so.1";

// From blkid.h.
const SUPERBLOCKS_LABEL: c_int = 1 << 1;
const SUPERBLOCKS_TYPE: c_int = 1 << 5;
const SUPERBLOCKS_USAGE: c_int = 1 << 7;
const SUPERBLOCKS_MAGIC: c_int = 1 << 9;
const SUPERBLOCKS_BAD_CHECKSUM: c_int = 1 << 10;
const PARTITIONS_FORCE_GPT: c_int = 1 << 1;
const PARTITIONS_MAGIC: c_int = 1 << 3;

/// More signatures than any device has; a bound for the loop.
const MOST: usize = 64;

/// A part of a device; without a length, up to its end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// `struct blkid_struct_probe`, of which only the library knows more.
#[repr(C)]
struct RawProbe {
    _opaque: [u8; 0],
}

type New = unsafe extern "C" fn() -> *mut RawProbe;
type Free = unsafe extern "C" fn(*mut RawProbe);
type SetDevice = unsafe extern "C" fn(*mut RawProbe, c_int, i64, i64) -> c_int;
type SetNumber = unsafe extern "C" fn(*mut RawProbe, c_int) -> c_int;
type DoProbe = unsafe extern "C" fn(*mut RawProbe) -> c_int;
type Lookup =
    unsafe extern "C" fn(*mut RawProbe, *const c_char, *mut *const c_char, *mut usize) -> c_int;

/// The functions of libblkid that are used.
pub(super) struct Blkid {
    new: New,
    free: Free,
    set_device: SetDevice,
    enable_superblocks: SetNumber,
    superblocks_flags: SetNumber,
    enable_partitions: SetNumber,
    partitions_flags: SetNumber,
    do_probe: DoProbe,
    lookup: Lookup,
    /// The functions above are there as long as it is.
    _library: Library,
}

impl Blkid {
    /// Loads the library.
    pub(super) fn load() -> Result<Self, String> {
        // SAFETY: libblkid has no constructors that do anything but set up
        // tables of its own; the name is that of its one stable interface.
        let library = unsafe { Library::new(LIBRARY) }.map_err(|error| error.to_string())?;
        // SAFETY: the types are those of the functions' declarations in blkid.h.
        unsafe {
            Ok(Self {
                new: function(&library, c"blkid_new_probe")?,
                free: function(&library, c"blkid_free_probe")?,
                set_device: function(&library, c"blkid_probe_set_device")?,
                enable_superblocks: function(&library, c"blkid_probe_enable_superblocks")?,
                superblocks_flags: function(&library, c"blkid_probe_set_superblocks_flags")?,
                enable_partitions: function(&library, c"blkid_probe_enable_partitions")?,
                partitions_flags: function(&library, c"blkid_probe_set_partitions_flags")?,
                do_probe: function(&library, c"blkid_do_probe")?,
                lookup: function(&library, c"blkid_probe_lookup_value")?,
                _library: library,
            })
        }
    }

    /// Every signature on the device, as often as it is there.
    pub(super) fn signatures(&self, device: &File) -> Result<Vec<Signature>, String> {
        self.all(device, Range::default(), |probe| probe.signature())
    }

    /// The same with their places.
    pub(super) fn leftovers(&self, device: &File, range: Range) -> Result<Vec<Leftover>, String> {
        self.all(device, range, |probe| probe.leftover(range))
    }

    fn all<T>(
        &self,
        device: &File,
        range: Range,
        read: impl Fn(&OneProbe<'_>) -> Option<T>,
    ) -> Result<Vec<T>, String> {
        let probe = OneProbe::begin(self, device, range)?;
        let mut found = Vec::new();
        for _ in 0..MOST {
            // SAFETY: the probe is alive, and so is the file that it reads.
            match unsafe { (self.do_probe)(probe.raw) } {
                0 => found.extend(read(&probe)),
                1 => return Ok(found),
                _ => return Err("its signatures cannot be read".into()),
            }
        }
        Ok(found)
    }
}

/// A function of the library.
///
/// # Safety
/// `F` must be the type of the function with that name, and not be used when
/// the library is gone.
unsafe fn function<F: Copy>(library: &Library, name: &CStr) -> Result<F, String> {
    // SAFETY: as the caller promised.
    let symbol: Symbol<'_, F> =
        unsafe { library.get(name.to_bytes_with_nul()) }.map_err(|error| error.to_string())?;
    Ok(*symbol)
}

/// A probe of one device, freed at its end.
struct OneProbe<'a> {
    blkid: &'a Blkid,
    raw: *mut RawProbe,
    /// The probe reads it.
    _device: &'a File,
}

impl<'a> OneProbe<'a> {
    fn begin(blkid: &'a Blkid, device: &'a File, range: Range) -> Result<Self, String> {
        let far = |_| "the place is too far from the device's beginning".to_owned();
        let offset = i64::try_from(range.offset).map_err(far)?;
        let length = i64::try_from(range.length).map_err(far)?;
        // SAFETY: the function takes nothing.
        let raw = unsafe { (blkid.new)() };
        if raw.is_null() {
            return Err("libblkid has no memory".into());
        }
        let probe = Self {
            blkid,
            raw,
            _device: device,
        };
        // SAFETY: the probe is alive, and the descriptor open as long as it.
        let failed = unsafe {
            (blkid.set_device)(raw, device.as_raw_fd(), offset, length) != 0
                || (blkid.enable_superblocks)(raw, 1) != 0
                || (blkid.superblocks_flags)(
                    raw,
                    SUPERBLOCKS_LABEL
                        | SUPERBLOCKS_TYPE
                        | SUPERBLOCKS_USAGE
                        | SUPERBLOCKS_MAGIC
                        | SUPERBLOCKS_BAD_CHECKSUM,
                ) != 0
                || (blkid.enable_partitions)(raw, 1) != 0
                || (blkid.partitions_flags)(raw, PARTITIONS_FORCE_GPT | PARTITIONS_MAGIC) != 0
        };
        if failed {
            return Err("libblkid does not take the device".into());
        }
        Ok(probe)
    }

    /// What was found last.
    fn signature(&self) -> Option<Signature> {
        if let Some(kind) = self.value(c"TYPE") {
            let usage = self.value(c"USAGE").unwrap_or_default();
            return Some(Signature {
                kind,
                usage: Usage::from_word(&usage),
                label: self.value(c"LABEL").filter(|label| !label.is_empty()),
            });
        }
        self.value(c"PTTYPE").map(|kind| Signature {
            kind,
            usage: Usage::PartitionTable,
            label: None,
        })
    }

    /// Where what was found last begins on the device.
    fn leftover(&self, range: Range) -> Option<Leftover> {
        let kind = self.signature()?.kind;
        let (magic, place) = match self.value(c"TYPE") {
            Some(_) => (c"SBMAGIC", c"SBMAGIC_OFFSET"),
            None => (c"PTMAGIC", c"PTMAGIC_OFFSET"),
        };
        let offset = self.value(place).and_then(|text| text.parse::<u64>().ok());
        Some(Leftover {
            kind,
            offset: offset.map(|offset| offset.saturating_add(range.offset)),
            length: self.length(magic),
        })
    }

    /// How long a value is.
    fn length(&self, name: &CStr) -> u64 {
        let (mut bytes, mut length) = (ptr::null(), 0_usize);
        // SAFETY: the probe is alive; the name is a string of C; value and
        // length are written where they point to.
        let failed = unsafe {
            (self.blkid.lookup)(self.raw, name.as_ptr(), &raw mut bytes, &raw mut length)
        };
        if failed != 0 { 0 } else { length as u64 }
    }

    fn value(&self, name: &CStr) -> Option<String> {
        let mut text = ptr::null();
        // SAFETY: the probe is alive; the name is a string of C; the value is
        // written where it points to, and its length is not asked for.
        let failed =
            unsafe { (self.blkid.lookup)(self.raw, name.as_ptr(), &raw mut text, ptr::null_mut()) };
        if failed != 0 || text.is_null() {
            return None;
        }
        // SAFETY: these values are strings of C in the probe's memory, which
        // does not change before the next call with it.
        let text = unsafe { CStr::from_ptr(text) };
        Some(text.to_string_lossy().trim().to_owned())
    }
}

impl Drop for OneProbe<'_> {
    fn drop(&mut self) {
        // SAFETY: it came from `blkid_new_probe` and is freed once.
        unsafe { (self.blkid.free)(self.raw) }
    }
}
