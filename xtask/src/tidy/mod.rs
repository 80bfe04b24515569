//! Checks that keep the design: each returns what it found wrong, and one
//! run reports everything that is wrong at once.

mod dependencies;
mod metrics;
mod policies;
mod purity;
mod reasons;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;

/// Runs every check below `root`; an error if one of them found something.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let mut found = dependencies::check(root)?;
    found.extend(policies::check(root)?);
    found.extend(metrics::check(root)?);
    let files = rust_files(root)?;
    found.extend(purity::check(&files));
    found.extend(sources::check(&files));
    found.extend(reasons::check(root, &files)?);
    for line in &found {
        eprintln!("{line}");
    }
    if !found.is_empty() {
        bail!("{} breaches of the conventions", found.len());
    }
    println!("tidy: {} source files keep the conventions", files.len());
    Ok(())
}

/// A source file with its path below the root.
struct SourceFile {
    path: String,
    text: String,
}

/// Every handwritten Rust file below `root`, in the order of their paths.
fn rust_files(root: &Path) -> anyhow::Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .and_then(|n| n.to_str())
                .unwrap_or_default();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" && name != "generated" {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path)?;
                let path = path.strip_prefix(root)?.display().to_string();
                files.push(SourceFile { path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
