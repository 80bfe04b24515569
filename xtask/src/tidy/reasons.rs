//! Every reason that a status, a condition or an Event can show stands in the
//! documents, where whoever meets it looks for it.
//!
//! What a reason is cannot be told from where it stands, and a list of such
//! places would be left behind by the code. So it is the other way round: each
//! word in CamelCase that stands alone between quotes, in any crate whose words
//! can come to a status, is in the first column of a table of reasons, or among
//! the words that are known to be something else. A word there that is not met
//! any more is an error too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::SourceFile;
use words::{APART, ELSEWHERE, OTHERS};

mod words;

/// The documents.
const DOCUMENTS: &[&str] = &["README.md", "docs/storage.md"];

/// What the head of a table of reasons has.
const HEAD: &str = " | what it means |";

/// Where the words stand that are no reasons.
const WORDS: &str = "xtask/src/tidy/reasons/words.rs";

/// What is known beforehand. The lists themselves are checked as well.
#[derive(Clone, Copy)]
struct Known<'a> {
    /// Folders whose words come to no status.
    elsewhere: &'a [&'a str],
    /// Words that are no reasons, by where they stand.
    others: &'a [(&'a str, &'a str)],
    /// Files that put words together, and the words.
    apart: &'a [(&'a str, &'a str)],
}

impl<'a> Known<'a> {
    /// Words that are no reasons, each with where it stands.
    fn words(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.others.iter().flat_map(|(place, words)| {
            let words = words.split_whitespace();
            words.map(move |word| (*place, word))
        })
    }
}

/// Reasons that no document names, and what is known in vain.
pub fn check(root: &Path, files: &[SourceFile]) -> anyhow::Result<Vec<String>> {
    let mut explained = BTreeSet::new();
    for name in DOCUMENTS {
        let path = root.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        explained.extend(first_column(&text));
    }
    let known = Known {
        elsewhere: ELSEWHERE,
        others: OTHERS,
        apart: APART,
    };
    Ok(breaches(files, &explained, known))
}

fn breaches(files: &[SourceFile], explained: &BTreeSet<String>, known: Known<'_>) -> Vec<String> {
    let mut found = Vec::new();
    // What the lists name and was met.
    let mut met = BTreeSet::new();
    for file in files.iter().filter(|file| !is_test(&file.path)) {
        let path = file.path.as_str();
        let folder = |folder: &&&str| path.starts_with(**folder);
        if let Some(folder) = known.elsewhere.iter().find(folder) {
            met.insert((*folder, ""));
            continue;
        }
        let (mut reasons, others): (BTreeSet<_>, BTreeSet<_>) =
            literals(&file.text).partition(is_word);
        for literal in others.into_iter().filter(is_put_together) {
            match known.apart.iter().find(|(place, _)| *place == path) {
                Some((place, words)) => {
                    met.insert((*place, ""));
                    reasons.extend(words.split_whitespace());
                }
                None => found.push(format!(
                    "{path}: {literal:?} puts a reason together, which nobody finds: write it out"
                )),
            }
        }
        reasons.retain(|reason| !explained.contains(*reason));
        for reason in reasons {
            let is_it = |(place, word): &(&str, &str)| path.starts_with(place) && *word == reason;
            match known.words().find(is_it) {
                Some(other) => {
                    met.insert(other);
                }
                None => {
                    let names = DOCUMENTS.join(" or ");
                    found.push(format!(
                        "{path}: no table of {names} says what {reason} means, nor {WORDS} that it is no reason"
                    ));
                }
            }
        }
    }
    found.extend(in_vain(known, &met));
    found
}

/// What the lists name and nobody met, or what needs no exception.
fn in_vain(known: Known<'_>, met: &BTreeSet<(&str, &str)>) -> Vec<String> {
    let files = known.apart.iter().map(|(place, _)| *place);
    let places = files.chain(known.elsewhere.iter().copied());
    places
        .map(|place| (place, ""))
        .chain(known.words())
        .filter(|named| !met.contains(named))
        .map(|(place, word)| format!("{WORDS}: {word} of {place} is named in vain"))
        .collect()
}

/// Whether a file is of tests alone.
fn is_test(path: &str) -> bool {
    path.split('/').any(|part| {
        let part = part.trim_end_matches(".rs");
        part == "tests" || part.ends_with("_tests")
    })
}

/// What stands in code marks in the first column of a document's tables of
/// reasons, heads included.
fn first_column(text: &str) -> BTreeSet<String> {
    let tables = text.split("\n\n").filter(|part| {
        let head = part.lines().next().unwrap_or_default();
        head.starts_with("| ") && head.contains(HEAD)
    });
    let rows = tables.flat_map(|table| table.lines().filter_map(|line| line.strip_prefix("| ")));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    // Every second piece is inside the marks.
    let marked = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    marked.map(str::to_owned).collect()
}

/// What stands between quotes in a file, but for its tests, of letters, digits
/// and what is put in.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    code.unwrap_or_default()
        .match_indices('"')
        .filter_map(move |(at, _)| {
            let rest = &text[at + 1..];
            let fits = |c: char| c.is_ascii_alphanumeric() || "{}_:?".contains(c);
            let end = rest.find(|c| !fits(c))?;
            rest[end..].starts_with('"').then(|| &rest[..end])
        })
}

/// Whether this may be a reason.
fn is_word(literal: &&str) -> bool {
    literal.len() > 2
        && literal.starts_with(|first: char| first.is_ascii_uppercase())
        && literal.chars().all(|c| c.is_ascii_alphanumeric())
        && literal.chars().any(|c| c.is_ascii_lowercase())
}

/// Whether this may become a reason once something is put in.
fn is_put_together(literal: &&str) -> bool {
    let pieces = || literal.split(['{', '}']).step_by(2);
    literal.contains('{')
        && pieces().all(|piece| piece.is_empty() || is_word(&piece))
        && pieces().any(|piece| !piece.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
//! Says "Words" in between.
const WORRYING: [&str; 2] = ["FirstReason", "SecondReason"];
fn f() {
    say(false, "ThirdReason", format!("for people: {why}"));
    let pod = read("Pod", "no reason", "lower", "SHOUTED", "Ab");
}
#[cfg(test)]
mod tests { const OTHER: &str = "TestReason"; }
"#;

    const README: &str = "
`ThirdReason` is not explained here.

| field | meaning |
|---|---|
| `ThirdReason` | nor here |

| reason | what it means |
|---|---|
| `FirstReason`, `Words` | it, or `ThirdReason` |
| **more** | |
| `SecondReason` (Event) | that |
";

    const KNOWN: Known<'_> = Known {
        elsewhere: &[],
        others: &[("disk/", "Pod")],
        apart: &[],
    };

    fn found(sources: &[(&str, &str)], known: Known<'_>) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        let files: Vec<_> = sources.iter().map(file).collect();
        breaches(&files, &first_column(README), known)
    }

    #[test]
    fn one_that_no_table_explains_is_reported() {
        let found = found(&[("disk/src/plan.rs", SOURCE)], KNOWN);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("says what ThirdReason means"));
    }

    #[test]
    fn a_new_crate_or_folder_is_searched_unless_it_is_named() {
        let sources = [("disk/src/a.rs", "\"Pod\""), ("new/src/a.rs", "\"Reason\"")];
        let one = found(&sources, KNOWN);
        assert!(matches!(&one[..], [one] if one.starts_with("new/src/a.rs: ")));
        let elsewhere = &["new/"][..];
        assert_eq!(found(&sources, Known { elsewhere, ..KNOWN }), [""; 0]);
        let tests = [sources[0], ("disk/src/a_tests.rs", "\"Reason\"")];
        assert_eq!(found(&tests, KNOWN), [""; 0]);
    }

    #[test]
    fn a_word_is_no_reason_only_where_that_is_said() {
        let sources = [("disk/src/a.rs", "\"Pod\""), ("new/src/a.rs", "\"Pod\"")];
        let found = found(&sources, KNOWN);
        assert!(matches!(&found[..], [one] if one.contains("says what Pod means")));
    }

    #[test]
    fn what_is_named_in_vain_is_reported() {
        let known = Known {
            elsewhere: &["gone/"],
            others: &[("disk/", "Pod FirstReason")],
            apart: &[("disk/src/gone.rs", "Reason")],
        };
        let sources = [("disk/src/a.rs", "\"Pod\", \"FirstReason\"")];
        let found = found(&sources, known);
        // What a document explains needs no exception.
        assert!(found.iter().any(|line| line.contains("FirstReason")));
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn what_is_put_together_is_named() {
        let sources = [(
            "disk/src/a.rs",
            "\"Pod\", \"{kind:?}Reason\", \"a{b}\", \"{c}\"",
        )];
        let one = found(&sources, KNOWN);
        assert!(matches!(&one[..], [one] if one.contains("puts a reason together")));
        let named = |words| Known {
            apart: words,
            ..KNOWN
        };
        let words = &[("disk/src/a.rs", "FirstReason SecondReason")];
        assert_eq!(found(&sources, named(words)), [""; 0]);
        let words = &[("disk/src/a.rs", "FirstReason OtherReason")];
        assert_eq!(found(&sources, named(words)).len(), 1);
    }
}
