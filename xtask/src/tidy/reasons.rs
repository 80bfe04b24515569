//! Every reason that the status of an image, export or storage can show stands
//! in the documents, where whoever meets it looks for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::SourceFile;

/// The documents.
const DOCUMENTS: &[&str] = &["README.md", "docs/storage.md"];

/// Where reasons of images, exports and the storage come from.
const PLACES: &[&str] = &[
    "inventory/src/",
    "disk/src/",
    "transfer/src/",
    "trust/src/",
    "node-agent/src/",
    "storage/src/",
    "coordinator/src/access/",
    "coordinator/src/admission/",
    "coordinator/src/agents/devices",
    "coordinator/src/cleanup/",
    "coordinator/src/export/",
    "coordinator/src/image/",
    "coordinator/src/storage/",
];

/// Files there whose reasons are the log's and the metrics' alone.
const INSIDE: &[&str] = &[
    "coordinator/src/admission/review.rs",
    "coordinator/src/image/error.rs",
];

/// What a reason stands behind.
const BEFORE: &[&str] = &[
    "reason: ",
    "refused: ",
    "conflict: ",
    "waiting(",
    "warning(",
    "REJECTED: &str = ",
    "WORRYING: [&str;",
    "not_ready(",
];

/// What stands before a reason that more words follow, which are none.
const FIRST: &[&str] = &[
    "changing(",
    "hopeless(",
    "lacking(",
    "unhealthy(",
    "warned(",
    ".problem(",
];

/// Reasons that no document names.
pub fn check(root: &Path, files: &[SourceFile]) -> anyhow::Result<Vec<String>> {
    let mut documents = String::new();
    for name in DOCUMENTS {
        let path = root.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        documents.push_str(&text);
    }
    Ok(missing(files, &documents))
}

fn missing(files: &[SourceFile], documents: &str) -> Vec<String> {
    let concerned = |file: &&SourceFile| {
        PLACES.iter().any(|place| file.path.starts_with(place))
            && !INSIDE.contains(&file.path.as_str())
            && !file.path.contains("test")
    };
    let mut found = Vec::new();
    for file in files.iter().filter(concerned) {
        for reason in reasons(&file.text) {
            if !documents.contains(&format!("`{reason}`")) {
                let path = &file.path;
                let names = DOCUMENTS.join(" or ");
                found.push(format!("{path}: {names} does not say what {reason} means"));
            }
        }
    }
    found
}

/// The reasons that stand in a file.
fn reasons(text: &str) -> BTreeSet<&str> {
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let mut found = BTreeSet::new();
    for body in behind(text, "fn reason(").chain(behind(text, "fn code(")) {
        let end = body.find("\n    }\n").unwrap_or(body.len());
        found.extend(words(&body[..end]));
    }
    for before in BEFORE {
        for rest in behind(text, before) {
            let end = match before.ends_with('(') {
                true => arguments(rest),
                false => value(rest),
            };
            found.extend(words(&rest[..end]));
        }
    }
    for before in FIRST {
        for rest in behind(text, before) {
            let rest = rest.trim_start();
            let first = rest.starts_with('"').then(|| words(rest).next()).flatten();
            found.extend(first.filter(|word| rest[1..].starts_with(word)));
        }
    }
    found
}

/// What follows each place where `mark` stands.
fn behind<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(mark)
        .map(move |(at, _)| &text[at + mark.len()..])
}

/// Where the arguments end that begin a text: at what closes them.
fn arguments(text: &str) -> usize {
    end(text, |_, character| character == ';')
}

/// Where the value ends that begins a text: at what separates it from the
/// next, or closes what it stands in.
fn value(text: &str) -> usize {
    end(text, |before, character| {
        character == ';' || (character == '\n' && before.ends_with(','))
    })
}

/// The first place outside brackets that is an end, or closes what the text
/// stands in.
fn end(text: &str, is_end: impl Fn(&str, char) -> bool) -> usize {
    let mut depth = 0;
    let mut quoted = false;
    for (at, character) in text.char_indices() {
        match character {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return at,
            ')' | ']' | '}' => depth -= 1,
            _ if depth == 0 && is_end(&text[..at], character) => return at,
            _ => {}
        }
    }
    text.len()
}

/// Literals that are CamelCase words.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |word: &&str| {
        word.len() > 3
            && word.starts_with(|first: char| first.is_ascii_uppercase())
            && word.chars().all(|c| c.is_ascii_alphanumeric())
            && word.chars().any(|c| c.is_ascii_lowercase())
    };
    // Every second piece is inside the quotes.
    text.split('"').skip(1).step_by(2).filter(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
impl E {
    fn reason(&self) -> &'static str {
        match self {
            Self::A => "FirstReason",
            Self::B { .. } => "SecondReason",
        }
    }
}
const OTHER: &str = "NoReason";
fn f() {
    let failure = Failure {
        reason: "ThirdReason".to_owned(),
        message: "Words".to_owned(),
    };
    let verdict = waiting(
        Phase::Pending,
        "FourthReason",
        "for people",
    );
    let other = call("NoReasonEither");
    let judged = hopeless(
        "FifthReason",
        says("Available"),
    );
    let same = hopeless(reason, "NotThis");
}
#[cfg(test)]
mod tests { fn reason() { "TestReason" } }
"#;

    #[test]
    fn reasons_are_found_where_they_are_given() {
        let found: Vec<_> = reasons(SOURCE).into_iter().collect();
        let expected = [
            "FifthReason",
            "FirstReason",
            "FourthReason",
            "SecondReason",
            "ThirdReason",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn one_that_the_readme_leaves_out_is_reported() {
        let file = |path: &str| SourceFile {
            path: path.into(),
            text: SOURCE.into(),
        };
        let files = [file("coordinator/src/image/plan.rs"), file("api/src/x.rs")];
        let readme = "`FirstReason`, `SecondReason`, ThirdReason, `FourthReason`, `FifthReason`";
        let found = missing(&files, readme);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("ThirdReason"), "{found:?}");
    }
}
