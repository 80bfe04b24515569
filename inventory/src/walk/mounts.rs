//! What is mounted, and what is swapped to.

use super::{Tree, number};
use crate::snapshot::Mount;

/// The mount table of PID 1, which sees what a container does not. Recorded
/// trees may have the table of another process, or one of the old form.
pub(super) fn mounts(tree: &Tree) -> Option<Vec<Mount>> {
    for table in ["proc/1/mountinfo", "proc/self/mountinfo"] {
        if tree.is_live() && table != "proc/1/mountinfo" {
            return None;
        }
        if let Some(text) = tree.text(table) {
            return Some(text.lines().filter_map(modern).collect());
        }
    }
    ["proc/1/mounts", "proc/self/mounts", "proc/mounts"]
        .iter()
        .find_map(|table| tree.text(table))
        .map(|text| text.lines().filter_map(old).collect())
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`
fn modern(line: &str) -> Option<Mount> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut fields = mount.split(' ');
    let device = fields.nth(2)?;
    let target = fields.nth(1)?;
    Some(Mount {
        number: number(device),
        source: unescaped(kind.split(' ').nth(1)?),
        target: unescaped(target),
    })
}

/// `/dev/sda1 /boot ext4 rw 0 0`
fn old(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ');
    Some(Mount {
        number: None,
        source: unescaped(fields.next()?),
        target: unescaped(fields.next()?),
    })
}

/// Paths that the kernel swaps to.
pub(super) fn swaps(tree: &Tree) -> Option<Vec<String>> {
    let text = tree.text("proc/swaps")?;
    Some(
        text.lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().next())
            .map(unescaped)
            .collect(),
    )
}

/// Undoes `\040`, as the kernel writes blanks.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = rest
            .get(..4)
            .filter(|_| first == b'\\')
            .and_then(|code| std::str::from_utf8(&code[1..]).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = code {
            out.push(byte);
            rest = &rest[4..];
        } else {
            out.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Number;

    #[test]
    fn a_line_of_the_mount_table_is_read() {
        let mount =
            modern(r"36 35 98:0 / /mnt/a\040b rw master:1 - ext3 /dev/root rw,x=y").unwrap();
        assert_eq!(
            mount,
            Mount {
                number: Some(Number {
                    major: 98,
                    minor: 0
                }),
                source: "/dev/root".into(),
                target: "/mnt/a b".into(),
            }
        );
        assert_eq!(modern("36 35 98:0 /"), None);
    }
}
