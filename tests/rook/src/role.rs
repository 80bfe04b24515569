//! Which of the programs it is, by the words it was started with.

/// One of the programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// `rook ceph operator`.
    Operator,
    /// `rook ceph osd remove --osd-ids ...`.
    RemoveOsds(Vec<u32>),
    /// `rook ceph clean`.
    Clean,
    /// The CSI operator's `/manager`.
    CsiOperator,
    /// CDI's operator.
    CdiOperator,
    /// The toolbox: a script that never ends.
    Toolbox,
    /// A daemon of Ceph, or a part of a CSI driver.
    Daemon,
    /// `ceph` with these words.
    Ceph(Vec<String>),
    /// Print the names of all images.
    Images,
}

/// What the words say. CDI's image has no words at all, so its environment
/// tells.
#[must_use]
pub fn of(words: &[String], is_cdi: bool) -> Option<Role> {
    let (program, rest) = words.split_first()?;
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match program.rsplit('/').next()? {
        "manager" => Some(Role::CsiOperator),
        "bash" | "toolbox.sh" => Some(Role::Toolbox),
        "ceph" => Some(Role::Ceph(rest.into_iter().map(str::to_owned).collect())),
        "ceph-mon" | "ceph-mgr" | "ceph-osd" | "radosgw" | "cephcsi" => Some(Role::Daemon),
        _ => match rest.as_slice() {
            [] if is_cdi => Some(Role::CdiOperator),
            ["images"] => Some(Role::Images),
            ["ceph", "operator", ..] => Some(Role::Operator),
            ["ceph", "clean", ..] => Some(Role::Clean),
            ["ceph", "osd", "remove", options @ ..] => Some(Role::RemoveOsds(ids(options)?)),
            _ => None,
        },
    }
}

/// The numbers after `--osd-ids`.
fn ids(options: &[&str]) -> Option<Vec<u32>> {
    let list = options.iter().enumerate().find_map(|(at, word)| {
        let inline = word.strip_prefix("--osd-ids=");
        inline.or_else(|| {
            options
                .get(at + 1)
                .copied()
                .filter(|_| *word == "--osd-ids")
        })
    })?;
    list.split(',').map(|id| id.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(words: &str) -> Option<Role> {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        of(&words, false)
    }

    #[test]
    fn the_manifests_words_are_known() {
        assert_eq!(role("/usr/bin/rook ceph operator"), Some(Role::Operator));
        assert_eq!(role("/manager --leader-elect"), Some(Role::CsiOperator));
        assert_eq!(role("/bin/bash -c x"), Some(Role::Toolbox));
        assert_eq!(role("ceph-osd --foreground"), Some(Role::Daemon));
        let purge =
            "rook ceph osd remove --preserve-pvc false --force-osd-removal false --osd-ids 0,2";
        assert_eq!(role(purge), Some(Role::RemoveOsds(vec![0, 2])));
        assert_eq!(role("rook ceph osd remove --osd-ids <OSD-IDs>"), None);
        let ceph = Role::Ceph(vec!["osd".to_owned(), "dump".to_owned()]);
        assert_eq!(role("ceph osd dump"), Some(ceph));
        assert_eq!(role("rook"), None);
        assert_eq!(of(&["rook".to_owned()], true), Some(Role::CdiOperator));
    }
}
