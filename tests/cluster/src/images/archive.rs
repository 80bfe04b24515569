//! Writes an OCI image layout as one tar archive: one layer, not compressed.
//!
//! The same contents give the same bytes: names are sorted, times are zero.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// An image to be written.
#[derive(Debug)]
pub struct Image {
    /// `NAME:TAG`.
    pub name: String,
    /// More names of it.
    pub aliases: Vec<String>,
    /// What is in it, by absolute name.
    pub contents: BTreeMap<String, Content>,
    /// The command.
    pub entrypoint: Vec<String>,
    /// `UID[:GID]` or empty.
    pub user: String,
}

/// One thing in an image.
#[derive(Debug)]
pub enum Content {
    /// A copy of a file, with its permission to execute.
    File(PathBuf),
    /// A file of this text.
    Text(String),
    /// A symbolic link to this.
    Link(String),
    /// A directory of this mode.
    Directory(u32),
}

/// Writes the image's archive to `path`.
pub fn write(image: &Image, path: &Path) -> Result<()> {
    let layer_path = path.with_extension("layer");
    let written = write_with_layer(image, path, &layer_path);
    // The layer is in the archive, or of no use.
    let _ = fs::remove_file(&layer_path);
    written
}

fn write_with_layer(image: &Image, path: &Path, layer_path: &Path) -> Result<()> {
    let layer = write_layer(image, layer_path).context("write the layer")?;
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "Entrypoint": image.entrypoint,
            "User": image.user,
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"],
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", layer.digest)]},
    });
    let config = Blob::of(&config);
    let manifest = Blob::of(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")],
    }));
    // One entry for each name. kubelet asks for the full one, which has a
    // registry and a repository.
    let named = |name: &String| {
        let mut entry = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
        entry["annotations"] = json!({"io.containerd.image.name": full_name(name)});
        entry
    };
    let names = std::iter::once(&image.name).chain(&image.aliases);
    let entries: Vec<Value> = names.map(named).collect();
    let index = json!({"schemaVersion": 2, "manifests": entries});

    let mut archive = Builder::new(BufWriter::new(File::create(path)?));
    append(
        &mut archive,
        "oci-layout",
        br#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    append(&mut archive, "index.json", index.to_string().as_bytes())?;
    for blob in [&config, &manifest] {
        append(&mut archive, &blob.name(), &blob.bytes)?;
    }
    let mut header = header(EntryType::Regular, 0o644, layer.size);
    archive.append_data(&mut header, layer.name(), File::open(layer_path)?)?;
    archive.into_inner()?.flush()?;
    Ok(())
}

/// As containerd's own tools and kubelet complete a short name.
fn full_name(name: &str) -> String {
    match name.split_once('/') {
        None => format!("docker.io/library/{name}"),
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

struct Blob {
    digest: String,
    size: u64,
    bytes: Vec<u8>,
}

impl Blob {
    fn of(document: &Value) -> Self {
        let bytes = document.to_string().into_bytes();
        Self {
            digest: hex(&Sha256::digest(&bytes)),
            size: bytes.len() as u64,
            bytes,
        }
    }

    fn name(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }

    fn descriptor(&self, kind: &str) -> Value {
        json!({"mediaType": kind, "digest": format!("sha256:{}", self.digest), "size": self.size})
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the layer to a file; returns its digest and size, without bytes.
fn write_layer(image: &Image, path: &Path) -> Result<Blob> {
    let sink = Digesting {
        digest: Sha256::new(),
        size: 0,
        file: BufWriter::new(File::create(path)?),
    };
    let mut layer = Builder::new(sink);
    let mut directories = BTreeSet::new();
    for (name, content) in &image.contents {
        let name = name.trim_start_matches('/');
        add_parents(&mut layer, name, &mut directories)?;
        add(&mut layer, name, content).with_context(|| format!("add /{name}"))?;
        if matches!(content, Content::Directory(_)) {
            directories.insert(name.to_owned());
        }
    }
    let mut sink = layer.into_inner()?;
    sink.file.flush()?;
    Ok(Blob {
        digest: hex(&sink.digest.finalize()),
        size: sink.size,
        bytes: Vec::new(),
    })
}

fn add<W: Write>(layer: &mut Builder<W>, name: &str, content: &Content) -> Result<()> {
    match content {
        Content::File(path) => {
            let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
            let status = file.metadata()?;
            let mode = if status.permissions().mode() & 0o111 == 0 {
                0o644
            } else {
                0o755
            };
            let mut header = header(EntryType::Regular, mode, status.len());
            layer.append_data(&mut header, name, file)?;
        }
        Content::Text(text) => append(layer, name, text.as_bytes())?,
        Content::Link(target) => {
            layer.append_link(&mut header(EntryType::Symlink, 0o777, 0), name, target)?;
        }
        Content::Directory(mode) => {
            let mut header = header(EntryType::Directory, *mode, 0);
            layer.append_data(&mut header, format!("{name}/"), io::empty())?;
        }
    }
    Ok(())
}

fn add_parents<W: Write>(
    layer: &mut Builder<W>,
    name: &str,
    directories: &mut BTreeSet<String>,
) -> Result<()> {
    for (position, _) in name.match_indices('/') {
        let parent = &name[..position];
        if directories.insert(parent.to_owned()) {
            add(layer, parent, &Content::Directory(0o755))?;
        }
    }
    Ok(())
}

fn append<W: Write>(archive: &mut Builder<W>, name: &str, bytes: &[u8]) -> Result<()> {
    let mut header = header(EntryType::Regular, 0o644, bytes.len() as u64);
    archive.append_data(&mut header, name, bytes)?;
    Ok(())
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header
}

struct Digesting {
    digest: Sha256,
    size: u64,
    file: BufWriter<File>,
}

impl Write for Digesting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all(bytes)?;
        self.digest.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_as_kubelet_completes_them() {
        assert_eq!(full_name("a:1"), "docker.io/library/a:1");
        assert_eq!(full_name("hcs-test/a:1"), "docker.io/hcs-test/a:1");
        assert_eq!(full_name("registry.example/a:1"), "registry.example/a:1");
        assert_eq!(full_name("localhost/a:1"), "localhost/a:1");
    }

    #[test]
    fn an_archive_is_complete_and_always_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let image = Image {
            name: "a:1".to_owned(),
            aliases: vec!["b:1".to_owned()],
            contents: BTreeMap::from([
                ("/bin/x".to_owned(), Content::Text("x".to_owned())),
                ("/bin/y".to_owned(), Content::Link("x".to_owned())),
                ("/tmp".to_owned(), Content::Directory(0o1777)),
            ]),
            entrypoint: vec!["/bin/x".to_owned()],
            user: String::new(),
        };
        let paths = ["one.tar", "two.tar"].map(|name| directory.path().join(name));
        for path in &paths {
            write(&image, path).unwrap();
        }
        let bytes = fs::read(&paths[0]).unwrap();
        assert_eq!(bytes, fs::read(&paths[1]).unwrap());
        assert!(!directory.path().join("one.layer").exists());
        let names: Vec<String> = tar::Archive::new(bytes.as_slice())
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names[..2], ["oci-layout", "index.json"]);
        assert_eq!(
            names
                .iter()
                .filter(|name| name.starts_with("blobs/sha256/"))
                .count(),
            3
        );
    }
}
