//! What `ceph` answers.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::orders::Orders;
use crate::osd::Osd;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What is printed.
    pub text: String,
    /// Whether it is one of success.
    pub ok: bool,
    /// What Ceph remembers from now on.
    pub change: Option<Change>,
}

/// What a command changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The OSD gets no data any more.
    Out(u32),
    /// The OSD gets data again.
    In(u32),
}

/// Options that have a word after them.
const WITH_WORD: &[&str] = &[
    "--name",
    "-n",
    "--connect-timeout",
    "--format",
    "-f",
    "--conf",
    "-c",
    "--keyring",
    "-k",
    "--keyfile",
    "--cluster",
    "--mon-host",
    "-m",
];

/// The words that are no options.
fn words(all: &[String]) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = all.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if WITH_WORD.contains(&word) {
            rest.next();
        } else if !word.starts_with('-') {
            words.push(word);
        }
    }
    words
}

/// The answer to these words.
#[must_use]
pub fn answer(all: &[String], osds: &[Osd], orders: &Orders, now: Timestamp) -> Answer {
    if !orders.commands || !orders.answers {
        return failure("timed out: [errno 110] RADOS timed out (error connecting to the cluster)");
    }
    match words(all).as_slice() {
        ["osd", "dump"] => success(&dump(osds)),
        ["osd", "metadata"] => success(&metadata(osds)),
        ["osd", "safe-to-destroy", which @ ..] => safe(which, osds, orders, now),
        ["osd", "out", id] => marked(id, osds, Change::Out),
        ["osd", "in", id] => marked(id, osds, Change::In),
        ["health" | "status", ..] | ["-s"] => success(&json!({
            "health": {"status": orders.health, "checks": {}},
        })),
        ["version" | "versions", ..] => success(&json!({})),
        other => failure(&format!("no valid command found: {}", other.join(" "))),
    }
}

fn success(value: &Value) -> Answer {
    Answer {
        text: value.to_string(),
        ok: true,
        change: None,
    }
}

fn failure(text: &str) -> Answer {
    Answer {
        text: format!("Error: {text}"),
        ok: false,
        change: None,
    }
}

fn dump(osds: &[Osd]) -> Value {
    let osds: Vec<Value> = osds
        .iter()
        .map(|osd| {
            json!({"osd": osd.id, "up": i32::from(osd.up), "in": i32::from(osd.out.is_none())})
        })
        .collect();
    json!({"epoch": 1, "osds": osds})
}

/// Nothing of the devices' serials: there are none.
fn metadata(osds: &[Osd]) -> Value {
    let osds = osds.iter();
    osds.map(|osd| json!({"id": osd.id, "hostname": osd.hostname}))
        .collect()
}

fn id(word: &str) -> Option<u32> {
    word.strip_prefix("osd.").unwrap_or(word).parse().ok()
}

fn safe(which: &[&str], osds: &[Osd], orders: &Orders, now: Timestamp) -> Answer {
    let asked: Vec<&Osd> = if which.is_empty() || which == ["all"] {
        osds.iter().collect()
    } else {
        let ids: Vec<u32> = which.iter().filter_map(|word| id(word)).collect();
        osds.iter().filter(|osd| ids.contains(&osd.id)).collect()
    };
    let is_safe = |osd: &&Osd| {
        let (Some(since), Some(drain)) = (osd.out, orders.drain) else {
            return false;
        };
        Duration::try_from(now.duration_since(since)).is_ok_and(|age| age >= drain)
    };
    let (safe, active): (Vec<&Osd>, Vec<&Osd>) = asked.into_iter().partition(is_safe);
    let ids = |osds: &[&Osd]| osds.iter().map(|osd| osd.id).collect::<Vec<u32>>();
    let mut answer = success(&json!({
        "safe_to_destroy": ids(&safe), "active": ids(&active),
        "missing_stats": [], "stored_pgs": [],
    }));
    // As Ceph does where none is.
    answer.ok = !safe.is_empty() || which.is_empty() || which == ["all"];
    answer
}

fn marked(word: &str, osds: &[Osd], change: impl Fn(u32) -> Change) -> Answer {
    match id(word) {
        Some(id) if osds.iter().any(|osd| osd.id == id) => Answer {
            text: format!("marked osd.{id}"),
            ok: true,
            change: Some(change(id)),
        },
        _ => failure(&format!("osd.{word} does not exist")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str, out: Option<&str>, orders: &Orders) -> Answer {
        let all: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let osd = |id, out| Osd {
            id,
            hostname: "a".to_owned(),
            device: "/dev/x".to_owned(),
            up: true,
            out,
        };
        let since = out.map(|out| out.parse().unwrap());
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        answer(&all, &[osd(0, None), osd(3, since)], orders, now)
    }

    #[test]
    fn options_are_passed_over() {
        let text = "--name client.admin --connect-timeout 30 osd dump --format json";
        let answer = ask(text, None, &Orders::default());
        let said: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(said["osds"][1], json!({"osd": 3, "up": 1, "in": 1}));
    }

    #[test]
    fn an_osd_is_marked_and_needed_until_it_is_drained() {
        let well = Orders::default();
        assert_eq!(ask("osd out 3", None, &well).change, Some(Change::Out(3)));
        assert_eq!(ask("osd in osd.3", None, &well).change, Some(Change::In(3)));
        assert!(!ask("osd out 9", None, &well).ok);
        let text = "osd safe-to-destroy all --format json";
        let safe = |out, orders: &Orders| -> Value {
            let answer = ask(text, out, orders);
            assert!(answer.ok);
            serde_json::from_str(&answer.text).unwrap()
        };
        let since = Some("2026-01-01T00:00:30Z");
        assert_eq!(safe(None, &well)["active"], json!([0, 3]));
        assert_eq!(safe(since, &well)["safe_to_destroy"], json!([3]));
        let slow = Orders {
            drain: Some(Duration::from_secs(60)),
            ..Orders::default()
        };
        assert_eq!(safe(since, &slow)["safe_to_destroy"], json!([]));
        let never = Orders {
            drain: None,
            ..Orders::default()
        };
        assert_eq!(safe(since, &never)["active"], json!([0, 3]));
    }

    #[test]
    fn a_silent_ceph_answers_nothing() {
        let silent = Orders {
            answers: false,
            ..Orders::default()
        };
        assert!(!ask("osd dump", None, &silent).ok);
    }
}
