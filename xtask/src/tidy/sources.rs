//! Every source file is a small room with its name on the door.

use super::SourceFile;

/// Lines beyond which a file has more than one subject, or a reason that
/// stands in [`LONG`].
const MOST_LINES: usize = 500;

/// Files that may be longer, with the reason.
const LONG: &[(&str, &str)] = &[];

/// Module names that say nothing of what lives there.
const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "helper", "helpers", "common", "misc", "manager", "data", "info",
];

/// Breaches of the conventions for source files.
pub fn check(files: &[SourceFile]) -> Vec<String> {
    files.iter().flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<String> {
    let mut found = Vec::new();
    if !file.text.starts_with("//!") && !file.text.starts_with("#!") {
        found.push(format!(
            "{}: begins without a `//!` that says what it is",
            file.path
        ));
    }
    let lines = file.text.lines().count();
    if lines > MOST_LINES && !LONG.iter().any(|(path, _)| *path == file.path) {
        found.push(format!("{}: {lines} lines; split it by subject", file.path));
    }
    let stem = file
        .path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .trim_end_matches(".rs");
    if EMPTY_NAMES.contains(&stem) {
        found.push(format!(
            "{}: the name says nothing of what lives there",
            file.path
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[SourceFile {
            path: path.into(),
            text: text.into(),
        }])
    }

    #[test]
    fn a_plain_file_passes() {
        assert!(found("disk/src/extent.rs", "//! Extents.\n").is_empty());
    }

    #[test]
    fn each_breach_is_named() {
        assert_eq!(found("disk/src/extent.rs", "fn f() {}\n").len(), 1);
        assert_eq!(found("disk/src/util.rs", "//! Things.\n").len(), 1);
        let long = format!("//! Long.\n{}", "\n".repeat(MOST_LINES));
        assert_eq!(found("disk/src/extent.rs", &long).len(), 1);
    }
}
