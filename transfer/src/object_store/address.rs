//! Names of stores, buckets and objects: which are some, and how they are
//! written in an address.

use url::Url;

use super::ObjectStoreError;

/// An endpoint as the SDK takes it.
///
/// Its path ends in a slash, or the SDK would glue the bucket to it.
pub(super) fn endpoint(given: &Url) -> Result<String, ObjectStoreError> {
    let good = matches!(given.scheme(), "http" | "https")
        && given.has_host()
        && given.username().is_empty()
        && given.password().is_none()
        && given.query().is_none()
        && given.fragment().is_none();
    if !good {
        let shown = crate::source::shown(given);
        return Err(ObjectStoreError::InvalidEndpoint(shown));
    }
    let mut endpoint = given.to_string();
    if !endpoint.ends_with('/') {
        endpoint.push('/');
    }
    Ok(endpoint)
}

/// Whether a bucket may have this name. Old ones have capitals and
/// underscores; an ARN is none, as it would lead to other hosts.
pub(super) fn judge_bucket(name: &str) -> Result<(), ObjectStoreError> {
    let sound = (3..=255).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        && name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if sound {
        Ok(())
    } else {
        Err(ObjectStoreError::InvalidBucketName(name.to_owned()))
    }
}

/// Whether an object with this key can be asked for. Its first segment stands
/// behind a slash that is not its own, so dots alone cannot be told from a
/// step up.
pub(super) fn judge_key(key: &str) -> Result<(), ObjectStoreError> {
    if (1..=1024).contains(&key.len()) && !is_step(key) {
        Ok(())
    } else {
        Err(ObjectStoreError::InvalidKey(key.to_owned()))
    }
}

/// Whether a segment of a key means a step in an address.
pub(super) fn is_step(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// The address of a key, which the SDK wrote, as a URL.
///
/// A URL has no segments `.` and `..`, however they are written; a key may. So
/// the slashes beside them are written as `%2F`: a store decodes them, and
/// judges the signature by what it decoded.
pub(super) fn url(signed: &str, key: &str) -> Option<Url> {
    let (address, query) = signed.split_once('?').unwrap_or((signed, ""));
    if !key.split('/').any(is_step) {
        return Url::parse(signed).ok();
    }
    let slashes = key.matches('/').count();
    let mut segments: Vec<&str> = address.rsplitn(slashes + 2, '/').collect();
    segments.reverse();
    let (before, key) = segments.split_first()?;
    let mut url = format!("{before}/");
    for (place, segment) in key.iter().enumerate() {
        if let Some(previous) = place.checked_sub(1).and_then(|place| key.get(place)) {
            let beside = is_step(previous) || is_step(segment);
            url.push_str(if beside { "%2F" } else { "/" });
        }
        url.push_str(segment);
    }
    Url::parse(&format!("{url}?{query}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_judged_and_end_in_a_slash() {
        for (given, taken) in [
            ("http://10.1.2.3:9000", "http://10.1.2.3:9000/"),
            ("http://10.1.2.3:9000/", "http://10.1.2.3:9000/"),
            ("https://store.example/base", "https://store.example/base/"),
            ("http://[fd00::1]:80", "http://[fd00::1]/"),
        ] {
            assert_eq!(endpoint(&Url::parse(given).unwrap()).unwrap(), taken);
        }
        for given in [
            "ftp://store.example",
            "http://user@store.example",
            "http://user:word@store.example",
            "http://store.example/?a=b",
            "http://store.example/#a",
            "s3://bucket",
        ] {
            let error = endpoint(&Url::parse(given).unwrap()).unwrap_err();
            assert_eq!(error.reason(), "InvalidEndpoint");
            let message = error.to_string();
            assert!(
                !message.contains("word") && !message.contains("a=b"),
                "{message}"
            );
        }
    }

    #[test]
    fn names_of_buckets_and_keys_are_judged() {
        for name in ["images", "my.images-2", "Old_Images", "abc"] {
            assert!(judge_bucket(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "ab",
            "a/b",
            "../x",
            "a?b",
            "arn:aws:s3:::x",
            ".abc",
            "a b c",
        ] {
            assert!(judge_bucket(name).is_err(), "{name}");
        }
        for key in ["a", "/a", "a//b", "../a", "a/..", "a/./b", "%2e", "ä b+c"] {
            assert!(judge_key(key).is_ok(), "{key}");
        }
        for key in ["", ".", "..", &"a".repeat(1025)] {
            assert!(judge_key(key).is_err(), "{key}");
        }
    }

    #[test]
    fn dots_in_a_key_are_kept() {
        for (key, signed, expected) in [
            ("a/b", "http://h/bucket/a/b?s=1", "http://h/bucket/a/b?s=1"),
            ("/a//b", "http://h/bucket//a//b", "http://h/bucket//a//b"),
            ("../a", "http://h/bucket/../a?s", "http://h/bucket/..%2Fa?s"),
            (
                "a/../b/c",
                "http://h/x/a/../b/c?s",
                "http://h/x/a%2F..%2Fb/c?s",
            ),
            ("a/b/.", "http://x.h/a/b/.?s", "http://x.h/a/b%2F.?s"),
            ("/..", "http://h/x//..?s", "http://h/x/%2F..?s"),
        ] {
            assert_eq!(url(signed, key).unwrap().as_str(), expected, "{key}");
        }
    }
}
