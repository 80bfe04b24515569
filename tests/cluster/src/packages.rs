//! The Debian packages the cluster needs, in one place.

use crate::command::{program, run, succeeds};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;

/// A file that shows the package is there, and the package that has it.
const NEEDED: &[(&str, &str)] = &[
    ("/usr/bin/containerd", "containerd"),
    ("/usr/sbin/runc", "runc"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("/usr/sbin/iptables", "iptables"),
    ("/usr/sbin/conntrack", "conntrack"),
    ("/usr/bin/ip", "iproute2"),
    ("/usr/sbin/mkfs.ext4", "e2fsprogs"),
    ("/usr/sbin/mkfs.xfs", "xfsprogs"),
    ("/usr/bin/nsenter", "util-linux"),
    ("/usr/bin/mount", "mount"),
    ("/usr/sbin/losetup", "mount"),
    ("/usr/bin/busybox", "busybox-static"),
    ("/usr/bin/setsid", "util-linux"),
    ("/usr/bin/ldd", "libc-bin"),
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
];

/// Installs what is missing, on Debian and its kin.
pub fn install_missing() -> Result<Vec<&'static str>> {
    let missing = missing(Path::new("/"));
    if missing.is_empty() {
        return Ok(missing);
    }
    let list = missing.join(" ");
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !is_debian_like(&release) {
        bail!(
            "these programs are missing and can be installed here on Debian or Ubuntu only: {list}"
        );
    }
    let install = || {
        let mut arguments = vec!["install", "-y", "--no-install-recommends"];
        arguments.extend(&missing);
        let mut command = program("apt-get", &arguments);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        // A package may want to start its daemon; the cluster runs its own.
        command.env("RUNLEVEL", "1");
        command
    };
    // The list of packages is refreshed only where it turns out too old.
    if !succeeds(&mut install()) {
        run(&mut program("apt-get", &["update"])).context("refresh the list of packages")?;
        run(&mut install()).with_context(|| format!("install {list}"))?;
    }
    Ok(missing)
}

fn missing(root: &Path) -> Vec<&'static str> {
    let mut missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(file, _)| !exists_in(root, file))
        .map(|(_, package)| *package)
        .collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// Releases differ in where programs are: `/bin`, `/usr/bin`, `/usr/sbin`.
/// What is no program is where it is: a plug-in may share a program's name.
fn exists_in(root: &Path, file: &str) -> bool {
    let exists = |folder: &str, name: &str| root.join(folder).join(name).exists();
    match file.rsplit_once('/') {
        Some(("/usr/bin" | "/usr/sbin", name)) => ["usr/bin", "usr/sbin", "bin", "sbin"]
            .iter()
            .any(|folder| exists(folder, name)),
        _ => root.join(file.trim_start_matches('/')).exists(),
    }
}

fn is_debian_like(release: &str) -> bool {
    release
        .lines()
        .filter_map(|line| {
            line.strip_prefix("ID=")
                .or_else(|| line.strip_prefix("ID_LIKE="))
        })
        .flat_map(|value| value.trim_matches('"').split(' '))
        .any(|id| id == "debian" || id == "ubuntu")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_package_is_named_once() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr/sbin")).unwrap();
        fs::write(root.path().join("usr/sbin/nsenter"), "").unwrap();
        // A program, and not the plug-in of that name.
        fs::write(root.path().join("usr/sbin/bridge"), "").unwrap();
        let missing = missing(root.path());
        assert_eq!(missing.iter().filter(|name| **name == "mount").count(), 1);
        assert!(missing.contains(&"util-linux"));
        assert!(missing.contains(&"containerd"));
        assert!(missing.contains(&"containernetworking-plugins"));
    }

    #[test]
    fn debian_and_its_kin_are_known() {
        assert!(is_debian_like("NAME=x\nID=debian\n"));
        assert!(is_debian_like("ID=mint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian_like("ID=fedora\n"));
    }
}
