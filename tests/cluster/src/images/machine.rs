//! The image that boots disks: QEMU from the distribution's package, with no
//! more of it than a machine without network and screen needs, and the program
//! that drives it.

use super::Recipe;
use crate::settings::MACHINE_IMAGE;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

const QEMU: &str = "/usr/bin/qemu-system-x86_64";
/// Emulation in software, where the distribution keeps it apart.
const MODULES: &[&str] = &["accel-tcg-x86_64.so"];
const MODULE_FOLDERS: &[&str] = &["/usr/lib/x86_64-linux-gnu/qemu", "/usr/lib/qemu"];
/// The BIOS, and what it takes for interrupts under any accelerator.
const FIRMWARE: &[&str] = &["bios-256k.bin", "kvmvapic.bin"];
const FIRMWARE_FOLDERS: &[&str] = &[
    "/usr/share/seabios",
    "/usr/share/qemu",
    "/usr/share/qemu/optionrom",
];

/// The recipe of the image around `program`, which drives QEMU.
pub fn recipe(program: &Path) -> Result<Recipe> {
    let mut programs = vec![
        format!("{}=/usr/bin/test-machine", program.display()),
        QEMU.to_owned(),
    ];
    // Elsewhere it is part of the program.
    let modules = MODULES.iter().filter_map(|name| find(MODULE_FOLDERS, name));
    programs.extend(modules.map(|path| in_place(&path)));
    let files = FIRMWARE.iter().map(|name| {
        let found = find(FIRMWARE_FOLDERS, name);
        let found = found.with_context(|| format!("QEMU's {name} is in none of its folders"))?;
        Ok(in_place(&found))
    });
    Ok(Recipe {
        name: MACHINE_IMAGE.to_owned(),
        programs,
        files: files.collect::<Result<_>>()?,
        // As whom KubeVirt runs machines.
        user: Some("107:107".to_owned()),
        ..Recipe::default()
    })
}

fn find(folders: &[&str], name: &str) -> Option<PathBuf> {
    let mut places = folders.iter().map(|folder| Path::new(folder).join(name));
    places.find(|path| path.exists())
}

/// A file under the name that it has here.
fn in_place(path: &Path) -> String {
    format!("{0}={0}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_in_the_first_folder_that_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let folders: Vec<_> = ["one", "two", "three"]
            .map(|name| folder.path().join(name))
            .into();
        for each in &folders[1..] {
            std::fs::create_dir(each).unwrap();
            std::fs::write(each.join("bios.bin"), "x").unwrap();
        }
        let names: Vec<_> = folders.iter().map(|each| each.to_str().unwrap()).collect();
        assert_eq!(find(&names, "bios.bin"), Some(folders[1].join("bios.bin")));
        assert_eq!(find(&names, "other.bin"), None);
        assert_eq!(in_place(Path::new("/a/b")), "/a/b=/a/b");
    }
}
