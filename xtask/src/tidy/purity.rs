//! Decisions stay free of effects: the modules named here see no client, no
//! runtime and no clock.

use super::SourceFile;

/// Names of the modules that decide, whether as a file or as a folder.
const PURE: &[&str] = &[
    "plan",
    "validate",
    "status",
    "state",
    "decide",
    "placement",
    "retry",
    "size",
    "verdict",
    "classify",
];

/// Crates of which those modules must exist; elsewhere the words may mean
/// something else.
const CRATES: &[&str] = &[
    "coordinator/src/",
    "node-agent/src/",
    "api/src/",
    "disk/src/",
    "inventory/src/",
];

/// Crates that decide and do nothing else.
const WHOLE: &[&str] = &["storage/src/"];

/// What an effect looks like in source text, with the reason it is refused.
const EFFECTS: &[(&str, &str)] = &[
    ("kube::Client", "a client"),
    ("kube::Api", "a client"),
    ("kube::runtime", "a runtime"),
    ("tokio::", "a runtime"),
    ("tonic::", "a transport"),
    ("async fn", "a runtime"),
    ("SystemTime::now", "a clock"),
    ("Instant::now", "a clock"),
    ("Timestamp::now", "a clock"),
    ("std::fs::", "the file system"),
    ("std::env::", "the environment"),
];

/// Effects in modules that must have none.
pub fn check(files: &[SourceFile]) -> Vec<String> {
    files
        .iter()
        .filter(|file| is_pure(&file.path))
        .flat_map(effects)
        .collect()
}

fn is_pure(path: &str) -> bool {
    if WHOLE.iter().any(|prefix| path.starts_with(prefix)) {
        return !path.contains("tests");
    }
    CRATES.iter().any(|prefix| path.starts_with(prefix))
        && path
            .trim_end_matches(".rs")
            .split('/')
            .any(|part| PURE.contains(&part))
        && !path.contains("tests")
}

/// Effects outside the file's own tests, which stand at its end.
fn effects(file: &SourceFile) -> Vec<String> {
    let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .flat_map(|(number, line)| {
            EFFECTS
                .iter()
                .filter(|(text, _)| line.contains(text))
                .map(move |(text, what)| {
                    format!(
                        "{}:{}: decides, so it must not reach {what}: {text}",
                        file.path,
                        number + 1
                    )
                })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&[SourceFile {
            path: path.into(),
            text: text.into(),
        }])
        .len()
    }

    #[test]
    fn an_effect_is_found_only_where_it_is_refused() {
        let text = "fn f() { let now = Timestamp::now(); }";
        assert_eq!(found("coordinator/src/image/plan.rs", text), 1);
        assert_eq!(found("coordinator/src/image/plan/retry.rs", text), 1);
        assert_eq!(found("coordinator/src/image/execute.rs", text), 0);
    }

    #[test]
    fn tests_and_comments_may_speak_of_effects() {
        let text = "// tokio::\nfn f() {}\n#[cfg(test)]\nmod t { async fn g() {} }";
        assert_eq!(found("coordinator/src/image/plan.rs", text), 0);
    }
}
