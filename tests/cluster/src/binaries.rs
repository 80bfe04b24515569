//! Builds the Go programs once and keeps them outside the checkout.
//!
//! The directory of a module's programs is named by what they are built from,
//! so a change of a version or of a source builds anew and nothing else does.

use crate::command::{program, run};
use crate::settings::{KUBERNETES_VERSION, Settings};
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A Go module of this crate.
struct Module {
    directory: &'static str,
    /// (name of the program, package)
    programs: &'static [(&'static str, &'static str)],
    is_kubernetes: bool,
}

const MODULES: &[Module] = &[
    Module {
        directory: "csi-driver",
        programs: &[("csi-driver", "."), ("pause", "./pause")],
        is_kubernetes: false,
    },
    Module {
        directory: "kubernetes",
        programs: &[
            ("etcd", "go.etcd.io/etcd/server/v3"),
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            (
                "kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
            ),
            ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
            ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
        ],
        is_kubernetes: true,
    },
    Module {
        directory: "addons",
        programs: &[
            ("coredns", "./dns"),
            (
                "csi-provisioner",
                "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner",
            ),
            (
                "csi-resizer",
                "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer",
            ),
            (
                "csi-snapshotter",
                "github.com/kubernetes-csi/external-snapshotter/v8/cmd/csi-snapshotter",
            ),
            (
                "snapshot-controller",
                "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller",
            ),
        ],
        is_kubernetes: false,
    },
];

/// What no cluster needs: built only where it is asked for.
const HELM: Module = Module {
    directory: "helm",
    programs: &[("helm", "helm.sh/helm/v4/cmd/helm")],
    is_kubernetes: false,
};

/// The module whose `config/crd` holds the snapshot CRDs.
const SNAPSHOT_CLIENT: &str = "github.com/kubernetes-csi/external-snapshotter/client/v8";
const SNAPSHOT_CRDS: &str = "snapshot-crds";

/// Where every program is.
#[derive(Debug, Clone)]
pub struct Binaries {
    directories: Vec<PathBuf>,
}

impl Binaries {
    /// The path of a program.
    pub fn path(&self, name: &str) -> Result<String> {
        let found = self
            .directories
            .iter()
            .map(|directory| directory.join(name))
            .find(|path| path.exists());
        match found {
            Some(path) => Ok(path.display().to_string()),
            None => bail!("no program {name} was built"),
        }
    }

    /// The directory of the snapshot CRDs.
    pub fn snapshot_crds(&self) -> Result<String> {
        self.path(SNAPSHOT_CRDS)
    }
}

/// Builds what is not built yet. `KUBEBUILDER_ASSETS`, if set, comes first in
/// the search for programs.
pub fn build(settings: &Settings) -> Result<Binaries> {
    let mut directories = Vec::new();
    if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty()) {
        directories.push(PathBuf::from(assets));
    }
    for module in MODULES {
        directories.push(build_module(settings, module)?);
    }
    Ok(Binaries { directories })
}

/// The path of Helm, which is built if it is not yet.
pub fn helm(settings: &Settings) -> Result<String> {
    let directories = vec![build_module(settings, &HELM)?];
    Binaries { directories }.path("helm")
}

/// What is built already, or an error.
pub fn built(settings: &Settings) -> Result<Binaries> {
    let mut directories = Vec::new();
    for module in MODULES {
        let directory = target(settings, module)?;
        if !directory.exists() {
            bail!(
                "{} is not built yet: run `test-cluster build`",
                module.directory
            );
        }
        directories.push(directory);
    }
    Ok(Binaries { directories })
}

fn target(settings: &Settings, module: &Module) -> Result<PathBuf> {
    let sources = settings.sources.join(module.directory);
    let key = key(&sources, &linker_flags(module))
        .with_context(|| format!("read the sources in {}", sources.display()))?;
    Ok(settings
        .cache
        .join("bin")
        .join(format!("{}-{key}", module.directory)))
}

fn build_module(settings: &Settings, module: &Module) -> Result<PathBuf> {
    let target = target(settings, module)?;
    if target.exists() {
        return Ok(target);
    }
    let parent = settings.cache.join("bin");
    fs::create_dir_all(&parent)?;
    let lock = File::create(parent.join(format!("{}.lock", module.directory)))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    if target.exists() {
        return Ok(target);
    }
    let begun = Instant::now();
    eprintln!(
        "    building {} (once; minutes when nothing is cached)",
        module.directory
    );
    let unfinished = parent.join(format!("{}.unfinished", module.directory));
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    fs::create_dir_all(&unfinished)?;
    for (name, package) in module.programs {
        let flags = linker_flags(module);
        let output = unfinished.join(name).display().to_string();
        run(go(settings, module)?
            .args(["build", "-trimpath", "-ldflags", &flags, "-o", &output])
            .arg(package))
        .with_context(|| format!("build {name}"))?;
    }
    if module.directory == "addons" {
        copy_snapshot_crds(settings, module, &unfinished)?;
    }
    fs::rename(&unfinished, &target)?;
    forget_older(&parent, module.directory, &target)?;
    eprintln!(
        "    built {} in {} s",
        module.directory,
        begun.elapsed().as_secs()
    );
    Ok(target)
}

fn go(settings: &Settings, module: &Module) -> Result<std::process::Command> {
    let mut command = program::<&str>("go", &[]);
    command
        .current_dir(settings.sources.join(module.directory))
        .env("GOFLAGS", "-buildvcs=false -mod=readonly")
        .env("CGO_ENABLED", "0");
    Ok(command)
}

fn linker_flags(module: &Module) -> String {
    let mut flags = String::from("-s -w");
    if module.is_kubernetes {
        let mut parts = KUBERNETES_VERSION.split('.');
        let (major, minor) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        let version = "k8s.io/component-base/version";
        flags.push_str(&format!(
            " -X {version}.gitVersion=v{KUBERNETES_VERSION} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
        ));
    }
    flags
}

/// The CRDs come from the module of their Go types, so they are of one version.
fn copy_snapshot_crds(settings: &Settings, module: &Module, into: &Path) -> Result<()> {
    let directory =
        run(go(settings, module)?.args(["list", "-m", "-f", "{{.Dir}}", SNAPSHOT_CLIENT]))?;
    let from = Path::new(directory.trim()).join("config/crd");
    let into = into.join(SNAPSHOT_CRDS);
    fs::create_dir_all(&into)?;
    for entry in fs::read_dir(&from).with_context(|| format!("list {}", from.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("snapshot.storage.") {
            fs::write(into.join(name), fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// A digest of everything the programs are built from.
fn key(sources: &Path, flags: &str) -> Result<String> {
    let mut files = Vec::new();
    collect(sources, &mut files)?;
    files.sort();
    let mut digest = Sha256::new();
    digest.update(flags);
    for file in files {
        let name = file.strip_prefix(sources)?.to_string_lossy().into_owned();
        let bytes = fs::read(&file)?;
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(&name);
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(&bytes);
    }
    let hex: String = digest
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(hex)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            collect(&path, files)?;
        } else if (name.ends_with(".go") && !name.ends_with("_test.go"))
            || name == "go.mod"
            || name == "go.sum"
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Programs of former versions only take room.
fn forget_older(parent: &Path, module: &str, keep: &Path) -> Result<()> {
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_build = name
            .strip_prefix(module)
            .and_then(|rest| rest.strip_prefix('-'))
            .is_some_and(|key| key.len() == 16);
        if is_build && path != keep {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_follows_the_sources_and_not_the_tests() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        write("go.mod", "module x");
        write("main.go", "package main");
        let first = key(directory.path(), "-s").unwrap();
        write("main_test.go", "package main");
        write("README.md", "text");
        assert_eq!(key(directory.path(), "-s").unwrap(), first);
        assert_ne!(key(directory.path(), "-w").unwrap(), first);
        write("main.go", "package main // changed");
        assert_ne!(key(directory.path(), "-s").unwrap(), first);
    }

    #[test]
    fn older_builds_of_the_same_module_are_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let old = make("csi-driver-0123456789abcdef");
        let new = make("csi-driver-fedcba9876543210");
        let other = make("addons-0123456789abcdef");
        forget_older(directory.path(), "csi-driver", &new).unwrap();
        assert!(!old.exists() && new.exists() && other.exists());
    }

    #[test]
    fn kubernetes_is_told_its_version() {
        let flags = linker_flags(&MODULES[1]);
        assert!(flags.contains("gitVersion=v1.34.4"));
        assert!(flags.contains("gitMajor=1 ") && flags.ends_with("gitMinor=34"));
    }
}
