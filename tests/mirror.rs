//! Where the real manifests lie that tests read; taken in by the tests of
//! several crates.

use std::path::{Path, PathBuf};

/// The folder of manifests: `HCS_MANIFESTS_MIRROR`, or `shared/manifests`
/// beside the project or above it. A word on what is skipped where there is
/// none.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("HCS_MANIFESTS_MIRROR") {
        return Some(named.into());
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("shared/manifests"))
        .find(|folder| folder.is_dir());
    if folder.is_none() {
        println!(
            "skipped: there are no manifests in ../shared/manifests, and \
             HCS_MANIFESTS_MIRROR names none"
        );
    }
    folder
}
