//! Volumes with disks on them.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use hypercloud_proto::agent::v1 as proto;
use rustix::mount::{UnmountFlags, unmount};

use crate::kubelet::{CSI, Kubelet, LoopDevice, Mounted, POD};

pub const MIB: usize = 1 << 20;

pub fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut random = fs::File::open("/dev/urandom").unwrap();
    random.read_exact(&mut bytes).unwrap();
    bytes
}

/// A disk of so many MiB, every fourth of which is zeros.
pub fn disk(mebibytes: usize) -> Vec<u8> {
    let mut bytes = noise(mebibytes * MIB);
    for (index, part) in bytes.chunks_mut(MIB).enumerate() {
        if index % 4 == 3 {
            part.fill(0);
        }
    }
    bytes
}

/// A disk of so many MiB that packs to less: text, but for a quarter of it,
/// which is noise, and a quarter, which is zeros.
pub fn mixed(mebibytes: usize) -> Vec<u8> {
    use std::io::Write;

    let mut bytes = disk(mebibytes);
    for part in bytes.chunks_mut(MIB).step_by(2) {
        let mut part = &mut part[..];
        let mut line = 0;
        while part.len() >= 40 {
            writeln!(part, "{line:020} of a disk").unwrap();
            line += 1;
        }
    }
    bytes
}

/// A volume with a disk on it, in either mode.
pub enum Volume {
    Block {
        device: LoopDevice,
        _backing: tempfile::TempDir,
    },
    Filesystem(Mounted),
}

impl Volume {
    pub fn block(kubelet: &Kubelet, name: &str, bytes: &[u8]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("backing");
        fs::write(&file, bytes).unwrap();
        let device = LoopDevice::new(&file);
        symlink(&device.0, kubelet.devices(CSI).join(name)).unwrap();
        Self::Block {
            device,
            _backing: place,
        }
    }

    pub fn filesystem(kubelet: &Kubelet, name: &str, bytes: Option<&[u8]>) -> Self {
        let mounted = kubelet.mount(name);
        if let Some(bytes) = bytes {
            fs::write(mounted.0.join("disk.img"), bytes).unwrap();
        }
        Self::Filesystem(mounted)
    }

    pub fn disk(&self) -> PathBuf {
        match self {
            Self::Block { device, .. } => device.0.clone(),
            Self::Filesystem(mounted) => mounted.0.join("disk.img"),
        }
    }

    pub fn read(&self) -> Vec<u8> {
        fs::read(self.disk()).unwrap()
    }

    pub fn mode(&self) -> proto::VolumeMode {
        match self {
            Self::Block { .. } => proto::VolumeMode::Block,
            Self::Filesystem(_) => proto::VolumeMode::Filesystem,
        }
    }

    pub fn let_go(self) {
        if let Self::Filesystem(mounted) = &self {
            unmount(&mounted.0, UnmountFlags::empty()).expect("nothing holds the volume");
        }
    }
}

pub fn pod_volume(name: &str, mode: proto::VolumeMode) -> Option<proto::PodVolume> {
    Some(proto::PodVolume {
        pod_uid: POD.into(),
        volume_name: name.into(),
        mode: mode.into(),
    })
}
