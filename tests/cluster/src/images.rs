//! Container images without a registry: a program with the libraries it is
//! linked with, as an OCI archive that containerd imports.

mod archive;
mod machine;

use crate::binaries::Binaries;
use crate::command::{program, run};
use crate::node;
use crate::settings::{Node, PAUSE_IMAGE, SHELL_IMAGE, Settings};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub use archive::{Content, Image};

const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// What goes into an image.
#[derive(Debug, Default)]
pub struct Recipe {
    /// `NAME:TAG`.
    pub name: String,
    /// More names of the same image, as `NAME:TAG` or `NAME@DIGEST`.
    pub aliases: Vec<String>,
    /// Programs as `PATH[=/DESTINATION]`, each with its libraries. Without a
    /// destination a program goes to `/usr/bin`.
    pub programs: Vec<String>,
    /// Other files as `PATH=/DESTINATION`.
    pub files: Vec<String>,
    /// Symbolic links as `/NAME=/TARGET`.
    pub links: Vec<String>,
    /// The command; none: the first program.
    pub entrypoint: Vec<String>,
    /// `UID[:GID]`; none: root.
    pub user: Option<String>,
}

/// Builds the image and loads it into every node.
pub fn load(settings: &Settings, nodes: &[Node], recipe: &Recipe) -> Result<()> {
    load_image(settings, nodes, &recipe.image()?)
}

/// Builds the image that boots disks, around the program that drives QEMU, and
/// loads it into every node.
pub fn load_machine(settings: &Settings, nodes: &[Node], program: &Path) -> Result<()> {
    load(settings, nodes, &machine::recipe(program)?)
}

fn load_image(settings: &Settings, nodes: &[Node], image: &Image) -> Result<()> {
    let directory = settings.root.join("images");
    fs::create_dir_all(&directory)?;
    let archive = directory.join(format!(
        "{}-{}.tar",
        image.name.replace(['/', ':'], "_"),
        std::process::id()
    ));
    let loaded = archive::write(image, &archive)
        .and_then(|()| import(nodes, &archive))
        .with_context(|| format!("load the image {}", image.name));
    // The archive has served, whatever came of it.
    let _ = fs::remove_file(&archive);
    loaded
}

/// Imports the archive into every node, at the same time.
fn import(nodes: &[Node], archive: &Path) -> Result<()> {
    std::thread::scope(|scope| {
        let imports: Vec<_> = nodes
            .iter()
            .map(|each| scope.spawn(|| node::load_image(each, archive)))
            .collect();
        imports.into_iter().try_for_each(|import| {
            import
                .join()
                .unwrap_or_else(|_| bail!("an import did not come to its end"))
        })
    })
}

/// The images that the cluster itself needs.
pub fn load_own(settings: &Settings, binaries: &Binaries, nodes: &[Node]) -> Result<()> {
    let pause = Recipe {
        name: PAUSE_IMAGE.to_owned(),
        programs: vec![format!("{}=/pause", binaries.path("pause")?)],
        user: Some("65535:65535".to_owned()),
        ..Recipe::default()
    };
    load(settings, nodes, &pause)?;
    load_image(settings, nodes, &shell()?)
}

/// busybox with a name for each of its commands.
fn shell() -> Result<Image> {
    let recipe = Recipe {
        name: SHELL_IMAGE.to_owned(),
        programs: vec!["/usr/bin/busybox=/bin/busybox".to_owned()],
        entrypoint: vec!["/bin/sh".to_owned()],
        ..Recipe::default()
    };
    let mut image = recipe.image()?;
    for applet in run(&mut program("/usr/bin/busybox", &["--list"]))?.lines() {
        let name = format!("/bin/{applet}");
        if applet != "busybox" {
            image
                .contents
                .insert(name, Content::Link("busybox".to_owned()));
        }
    }
    Ok(image)
}

impl Recipe {
    fn image(&self) -> Result<Image> {
        if self.programs.is_empty() {
            bail!("an image needs a program");
        }
        if !self.name.contains(':') {
            bail!("{} has no tag", self.name);
        }
        let mut contents = BTreeMap::new();
        let mut entrypoint = self.entrypoint.clone();
        for word in &self.programs {
            let (path, destination) = split(word, "/usr/bin")?;
            for library in libraries(&path)? {
                let name = library.display().to_string();
                contents.insert(name, Content::File(library));
            }
            if entrypoint.is_empty() {
                entrypoint.push(destination.clone());
            }
            contents.insert(destination, Content::File(path));
        }
        for word in &self.files {
            let (path, destination) = split(word, "/")?;
            contents.insert(destination, Content::File(path));
        }
        for word in &self.links {
            let (name, target) = word
                .split_once('=')
                .filter(|(name, _)| name.starts_with('/'))
                .with_context(|| format!("{word:?} is no link as /NAME=/TARGET"))?;
            contents.insert(name.to_owned(), Content::Link(target.to_owned()));
        }
        for (name, text) in [
            (
                "/etc/passwd",
                "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
            ),
            ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
            ("/etc/nsswitch.conf", "hosts: files dns\n"),
        ] {
            contents.insert(name.to_owned(), Content::Text(text.to_owned()));
        }
        if Path::new(CERTIFICATES).exists() {
            contents.insert(CERTIFICATES.to_owned(), Content::File(CERTIFICATES.into()));
        }
        contents.insert("/tmp".to_owned(), Content::Directory(0o1777));
        Ok(Image {
            name: self.name.clone(),
            aliases: self.aliases.clone(),
            contents,
            entrypoint,
            user: self.user.clone().unwrap_or_default(),
        })
    }
}

/// `PATH[=/DESTINATION]`, the destination by default in `directory`.
fn split(word: &str, directory: &str) -> Result<(PathBuf, String)> {
    let (path, destination) = match word.split_once('=') {
        Some((path, destination)) => (path, destination.to_owned()),
        None => {
            let name = Path::new(word).file_name().unwrap_or_default();
            let place = Path::new(directory).join(name);
            (word, place.display().to_string())
        }
    };
    if !destination.starts_with('/') || destination.ends_with('/') {
        bail!("the destination in {word:?} is no absolute name of a file");
    }
    let path = Path::new(path);
    if !path.is_file() {
        bail!("{} is no file", path.display());
    }
    Ok((path.to_owned(), destination))
}

/// Libraries that programs load while they run: for name resolution those of
/// glibc, for signatures of devices libblkid.
const LOADED_LATER: &[&str] = &[
    "libnss_dns.so.2",
    "libnss_files.so.2",
    "libresolv.so.2",
    "libblkid.so.1",
];

/// The shared libraries a program loads, and its loader, under the names by
/// which they are looked for.
fn libraries(path: &Path) -> Result<Vec<PathBuf>> {
    let output = program("ldd", &[path]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        // A static program: ldd says so and fails.
        return Ok(Vec::new());
    }
    let found = parse_ldd(&text)?;
    let Some(libc) = found.iter().find(|name| name.ends_with("libc.so.6")) else {
        return Ok(found);
    };
    let beside = LOADED_LATER.iter().map(|name| libc.with_file_name(name));
    let existing = beside.filter(|path| path.exists());
    Ok(found.iter().cloned().chain(existing).collect())
}

fn parse_ldd(text: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.ends_with("=> not found") {
            bail!("a library is missing: {line}");
        }
        let name = match line.split_once(" => ") {
            Some((_, name)) => name,
            None => line,
        };
        let name = name.split(" (").next().unwrap_or(name);
        if name.starts_with('/') {
            found.push(PathBuf::from(name));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\
                    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x2)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        let found = parse_ldd(text).unwrap();
        assert_eq!(
            found,
            [
                Path::new("/lib/x86_64-linux-gnu/libc.so.6"),
                Path::new("/lib64/ld-linux-x86-64.so.2"),
            ]
        );
        assert!(parse_ldd("\tlibx.so => not found\n").is_err());
    }

    #[test]
    fn a_program_goes_to_usr_bin_unless_said_otherwise() {
        let shell = "/bin/sh";
        assert_eq!(split(shell, "/usr/bin").unwrap().1, "/usr/bin/sh");
        assert_eq!(split("/bin/sh=/x", "/usr/bin").unwrap().1, "/x");
        assert!(split("/bin/sh=x", "/usr/bin").is_err());
        assert!(split("/no/such/file", "/usr/bin").is_err());
    }

    #[test]
    fn links_and_other_names_are_taken_over() {
        let mut recipe = Recipe {
            name: "a:1".to_owned(),
            aliases: vec!["b:2".to_owned()],
            programs: vec!["/bin/sh=/one".to_owned()],
            links: vec!["/bin/other=/one".to_owned()],
            ..Recipe::default()
        };
        let image = recipe.image().unwrap();
        assert_eq!(image.aliases, ["b:2"]);
        assert!(matches!(&image.contents["/bin/other"], Content::Link(to) if to == "/one"));
        recipe.links = vec!["other=/one".to_owned()];
        assert!(recipe.image().is_err());
    }

    #[test]
    fn the_first_program_is_the_command() {
        let recipe = Recipe {
            name: "a:1".to_owned(),
            programs: vec!["/bin/sh=/one".to_owned(), "/bin/sh=/two".to_owned()],
            ..Recipe::default()
        };
        let image = recipe.image().unwrap();
        assert_eq!(image.entrypoint, ["/one"]);
        assert!(image.contents.contains_key("/two"));
        assert!(image.contents.contains_key("/etc/passwd"));
    }
}
