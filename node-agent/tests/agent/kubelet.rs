//! A kubelet's directory with real mounts and devices in it.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use node_agent::volume::{PodUid, PodVolume, VolumeMode, VolumeName};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};
use tempfile::TempDir;

pub const POD: &str = "5f0c6e0e-8a3f-4f2e-9d42-0b1a4c6c7d11";
pub const CSI: &str = "kubernetes.io~csi";

/// A temporary kubelet directory.
pub struct Kubelet {
    root: TempDir,
}

/// Something mounted; unmounted when dropped.
pub struct Mounted(pub PathBuf);

/// A loop device on a file; detached when dropped.
pub struct LoopDevice(pub PathBuf);

pub fn volume(name: &str, mode: VolumeMode) -> PodVolume {
    PodVolume {
        pod_uid: PodUid::parse(POD).unwrap(),
        volume_name: VolumeName::parse(name).unwrap(),
        mode,
    }
}

impl Kubelet {
    pub fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The pod's directory for mounted volumes of a plugin.
    pub fn volumes(&self, plugin: &str) -> PathBuf {
        self.made(&format!("pods/{POD}/volumes/{plugin}"))
    }

    /// The pod's directory for the devices of a plugin.
    pub fn devices(&self, plugin: &str) -> PathBuf {
        self.made(&format!("pods/{POD}/volumeDevices/{plugin}"))
    }

    /// The mount point of a CSI volume, made and empty.
    pub fn mount_point(&self, name: &str) -> PathBuf {
        self.made(&format!("pods/{POD}/volumes/{CSI}/{name}/mount"))
    }

    /// A CSI volume with a file system of its own.
    pub fn mount(&self, name: &str) -> Mounted {
        Mounted::tmpfs(self.mount_point(name), c"size=768m")
    }

    /// The same with room for so many MiB.
    pub fn mount_of_mebibytes(&self, name: &str, size: u32) -> Mounted {
        let size = std::ffi::CString::new(format!("size={size}m")).unwrap();
        Mounted::tmpfs(self.mount_point(name), &size)
    }

    fn made(&self, path: &str) -> PathBuf {
        let path = self.root().join(path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

impl Mounted {
    pub fn tmpfs(path: PathBuf, options: &CStr) -> Self {
        mount("test", &path, "tmpfs", MountFlags::empty(), options).unwrap();
        Self(path)
    }

    /// Lets nobody write to it any more, as a pod asks for that reads only.
    pub fn make_read_only(&self) {
        mount_remount(&self.0, MountFlags::RDONLY, c"").unwrap();
    }

    pub fn bind(source: &Path, path: PathBuf) -> Self {
        mount_bind(source, &path).unwrap();
        Self(path)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

impl LoopDevice {
    pub fn new(file: &Path) -> Self {
        let made = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(file)
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        Self(String::from_utf8(made.stdout).unwrap().trim().into())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.0)
            .status();
    }
}
