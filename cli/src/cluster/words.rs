//! Words as kubectl reads them.

use std::time::Duration;

/// The name of an object of the cluster.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = text.len() <= 253
        && text.chars().all(plain)
        && text.starts_with(edge)
        && text.ends_with(edge);
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("an object's name is of small letters, digits, - and .; give the name alone".to_owned())
    }
}

/// A duration.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a duration is written like 90s, 5m or 1h30m".to_owned();
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = rest.split_at(digits);
        let number: u32 = number.parse().map_err(|_| wrong())?;
        let (one, length) = match unit.as_bytes() {
            [b'm', b's', ..] => (Duration::from_millis(1), 2),
            [b's', ..] => (Duration::from_secs(1), 1),
            [b'm', ..] => (Duration::from_secs(60), 1),
            [b'h', ..] => (Duration::from_secs(3600), 1),
            _ => return Err(wrong()),
        };
        total = total.saturating_add(one.saturating_mul(number));
        rest = unit.get(length..).unwrap_or_default();
    }
    if total.is_zero() {
        return Err("a duration has to be longer than nothing; leave it out for none".to_owned());
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_names_are_read_as_kubectl_reads_them() {
        for (text, seconds) in [("90s", 90), ("5m", 300), ("1h30m", 5400), ("1000ms", 1)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in [
            "",
            "5",
            "m",
            "0s",
            "-5m",
            "5 m",
            "1.5h",
            "5x",
            "99999999999s",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(object_name("vm-root.disk1").as_deref(), Ok("vm-root.disk1"));
        for text in ["", "pvc/disk", "Disk", "-disk", "disk.", "a b"] {
            assert!(object_name(text).is_err(), "{text}");
        }
    }
}
