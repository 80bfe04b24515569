//! Finding volumes in trees as kubelet makes them.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use node_agent::volume::{Absence, KubeletVolumes, Volume, VolumeError, VolumeMode, Volumes};

use crate::is_root;
use crate::kubelet::{CSI, Kubelet, LoopDevice, Mounted, volume};

/// Patience for what is there, or will never be.
const SHORT: Duration = Duration::from_millis(250);

async fn absence(kubelet: &Kubelet, name: &str, mode: VolumeMode) -> Absence {
    let volumes = KubeletVolumes::new(kubelet.root(), SHORT);
    match volumes.locate(&volume(name, mode)).await {
        Err(error @ VolumeError::NotFound { .. }) => {
            assert_eq!(error.reason(), "VolumeNotFound");
            let VolumeError::NotFound { absence, .. } = error else {
                unreachable!()
            };
            absence
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_directory_without_a_mount_is_no_volume() {
    let kubelet = Kubelet::new();
    let point = kubelet.mount_point("pvc-1");
    let seen = absence(&kubelet, "pvc-1", VolumeMode::Filesystem).await;
    assert!(matches!(seen, Absence::NotMounted(path) if path == point));
    let seen = absence(&kubelet, "pvc-2", VolumeMode::Filesystem).await;
    assert!(matches!(seen, Absence::NoEntry(_)), "{seen:?}");
    let seen = absence(&kubelet, "pvc-1", VolumeMode::Block).await;
    assert!(matches!(seen, Absence::NoEntry(_)), "{seen:?}");
}

#[tokio::test]
async fn neither_a_file_nor_a_link_is_a_mounted_volume() {
    let kubelet = Kubelet::new();
    let csi = kubelet.volumes(CSI);
    fs::create_dir(csi.join("file")).unwrap();
    fs::write(csi.join("file/mount"), "").unwrap();
    fs::create_dir(csi.join("link")).unwrap();
    // The root of the machine is a mount point, but not of this volume.
    symlink("/", csi.join("link/mount")).unwrap();
    for name in ["file", "link"] {
        let seen = absence(&kubelet, name, VolumeMode::Filesystem).await;
        assert!(matches!(seen, Absence::NotMounted(_)), "{name}: {seen:?}");
    }
}

#[tokio::test]
async fn a_name_that_two_plugins_have_is_nobodys() {
    let kubelet = Kubelet::new();
    kubelet.mount_point("pvc-1");
    fs::create_dir(kubelet.volumes("kubernetes.io~nfs").join("pvc-1")).unwrap();
    let seen = absence(&kubelet, "pvc-1", VolumeMode::Filesystem).await;
    assert!(matches!(seen, Absence::Ambiguous(_)), "{seen:?}");
}

#[tokio::test]
async fn a_link_to_anything_but_a_block_device_is_no_volume() {
    let kubelet = Kubelet::new();
    let devices = kubelet.devices(CSI);
    symlink("/dev/null", devices.join("character")).unwrap();
    symlink("/etc/hostname", devices.join("file")).unwrap();
    symlink("/nowhere", devices.join("dangling")).unwrap();
    for name in ["character", "file"] {
        let seen = absence(&kubelet, name, VolumeMode::Block).await;
        assert!(
            matches!(seen, Absence::NotABlockDevice(_)),
            "{name}: {seen:?}"
        );
    }
    let seen = absence(&kubelet, "dangling", VolumeMode::Block).await;
    assert!(matches!(seen, Absence::NoEntry(_)), "{seen:?}");
}

#[tokio::test]
async fn a_mounted_volume_is_found_and_noticed_when_exchanged() {
    if !is_root("a_mounted_volume_is_found_and_noticed_when_exchanged") {
        return;
    }
    let kubelet = Kubelet::new();
    let wanted = volume("pvc-1", VolumeMode::Filesystem);
    let volumes = KubeletVolumes::new(kubelet.root(), SHORT);
    let mounted = kubelet.mount("pvc-1");
    let found = volumes.locate(&wanted).await.unwrap();
    assert!(matches!(&found, Volume::Directory(_)));
    assert_eq!(found.path(), mounted.0);
    volumes.recheck(&wanted, &found).await.unwrap();

    drop(mounted);
    let gone = volumes.recheck(&wanted, &found).await.unwrap_err();
    assert_eq!(gone.reason(), "VolumeNotFound");
    // Another file system altogether: a mount's number may be given anew.
    let other = tempfile::tempdir().unwrap();
    let _other = Mounted::bind(other.path(), kubelet.mount_point("pvc-1"));
    let exchanged = volumes.recheck(&wanted, &found).await.unwrap_err();
    assert_eq!(exchanged.reason(), "VolumeExchanged");
}

/// A bind mount has the device number of its parent; it is a mount even so.
#[tokio::test]
async fn a_bind_mount_from_the_same_file_system_is_a_volume() {
    if !is_root("a_bind_mount_from_the_same_file_system_is_a_volume") {
        return;
    }
    let kubelet = Kubelet::new();
    let source = kubelet.root().join("source");
    fs::create_dir(&source).unwrap();
    let _mounted = Mounted::bind(&source, kubelet.mount_point("pvc-1"));
    let volumes = KubeletVolumes::new(kubelet.root(), SHORT);
    volumes
        .locate(&volume("pvc-1", VolumeMode::Filesystem))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_volume_of_another_plugin_is_mounted_on_its_own_directory() {
    if !is_root("a_volume_of_another_plugin_is_mounted_on_its_own_directory") {
        return;
    }
    let kubelet = Kubelet::new();
    let point = kubelet.volumes("kubernetes.io~local-volume").join("pv-1");
    fs::create_dir(&point).unwrap();
    let mounted = Mounted::tmpfs(point, c"size=1m");
    let volumes = KubeletVolumes::new(kubelet.root(), SHORT);
    let found = volumes
        .locate(&volume("pv-1", VolumeMode::Filesystem))
        .await
        .unwrap();
    assert_eq!(found.path(), mounted.0);
}

#[tokio::test]
async fn kubelet_is_waited_for() {
    if !is_root("kubelet_is_waited_for") {
        return;
    }
    let kubelet = Kubelet::new();
    let volumes = KubeletVolumes::new(kubelet.root(), crate::DEADLINE);
    let wanted = volume("pvc-1", VolumeMode::Filesystem);
    let mut locate = Box::pin(volumes.locate(&wanted));
    let early = tokio::time::timeout(SHORT, &mut locate).await;
    assert!(early.is_err(), "nothing is there yet");
    let mounted = kubelet.mount("pvc-1");
    assert_eq!(locate.await.unwrap().path(), mounted.0);
}

#[tokio::test]
async fn a_block_device_is_found_behind_kubelets_link() {
    if !is_root("a_block_device_is_found_behind_kubelets_link") {
        return;
    }
    let kubelet = Kubelet::new();
    let file = kubelet.root().join("disk");
    fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let device = LoopDevice::new(&file);
    symlink(&device.0, kubelet.devices(CSI).join("pvc-1")).unwrap();
    let volumes = KubeletVolumes::new(kubelet.root(), SHORT);
    let wanted = volume("pvc-1", VolumeMode::Block);
    let found = volumes.locate(&wanted).await.unwrap();
    assert!(matches!(&found, Volume::BlockDevice(_)));
    assert_eq!(found.path(), device.0);
    volumes.recheck(&wanted, &found).await.unwrap();
}
