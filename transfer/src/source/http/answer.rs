//! Judging answers: the status, the range, the length, the validator.

use std::time::{Duration, SystemTime};

use hypercloud_disk::Extent;
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, HeaderName,
    LAST_MODIFIED, RETRY_AFTER,
};
use reqwest::{Response, StatusCode};
use url::Url;

use crate::error::SourceError;
use crate::source::client::shown;

/// An error, and how long the server asks to wait.
pub(crate) struct Failure {
    pub(crate) error: SourceError,
    pub(crate) after: Option<Duration>,
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self { error, after: None }
    }
}

impl Failure {
    /// Whether it may be this address that stopped working, as a signed one
    /// does.
    /// Some stores answer 400 to one that expired.
    pub(super) fn is_of_the_address(&self) -> bool {
        matches!(
            self.error,
            SourceError::NotFound(_)
                | SourceError::Unauthorized(_)
                | SourceError::Forbidden(_)
                | SourceError::UnexpectedStatus { status: 400, .. }
        )
    }

    /// Whether the server itself may be gone, as a mirror is.
    pub(super) fn is_of_the_server(&self) -> bool {
        matches!(
            self.error,
            SourceError::ConnectFailed { .. } | SourceError::NameNotResolved { .. }
        )
    }
}

/// What the first answer tells of the whole.
pub(super) struct Told {
    pub(super) size: Option<u64>,
    /// How many bytes of it come now.
    pub(super) coming: Option<u64>,
    pub(super) ranges: bool,
    pub(super) is_called_html: bool,
}

fn header(response: &Response, name: HeaderName) -> Option<&str> {
    response.headers().get(name)?.to_str().ok().map(str::trim)
}

/// What tells this content from a later one.
pub(super) fn validator(response: &Response) -> Option<String> {
    header(response, ETAG)
        .or_else(|| header(response, LAST_MODIFIED))
        .map(str::to_owned)
}

/// `Content-Range: bytes 0-99/1234`: the part, and the length of the whole.
fn content_range(value: &str) -> Option<(Option<Extent>, Option<u64>)> {
    let (part, whole) = value.strip_prefix("bytes ")?.trim().split_once('/')?;
    let whole = match whole {
        "*" => None,
        whole => Some(whole.parse().ok()?),
    };
    if part == "*" {
        return Some((None, whole));
    }
    let (first, last) = part.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let end = last.checked_add(1)?;
    let sound = first < end && whole.is_none_or(|whole| end <= whole);
    sound.then_some((Some(Extent::between(first, end)), whole))
}

/// How long `Retry-After` asks to wait: seconds, or until a date.
fn pause(value: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    Some(until.duration_since(now).unwrap_or_default())
}

/// Fails for every status but success and 416.
fn judge_status(url: &Url, response: &Response) -> Result<(), Failure> {
    let location = shown(url);
    let status = response.status();
    let error = match status {
        StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
            return match header(response, CONTENT_ENCODING) {
                Some(encoding) if !encoding.eq_ignore_ascii_case("identity") => {
                    let encoding = encoding.to_owned();
                    Err(SourceError::ContentEncoded { location, encoding }.into())
                }
                _ => Ok(()),
            };
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => SourceError::NotFound(location),
        StatusCode::UNAUTHORIZED => SourceError::Unauthorized(location),
        StatusCode::FORBIDDEN => SourceError::Forbidden(location),
        StatusCode::TOO_MANY_REQUESTS => SourceError::TooManyRequests(location),
        StatusCode::PRECONDITION_FAILED => SourceError::SourceChanged(location),
        status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
            SourceError::ServerError {
                location,
                status: status.as_u16(),
            }
        }
        status => SourceError::UnexpectedStatus {
            location,
            status: status.as_u16(),
        },
    };
    let after = retry_after(response);
    Err(Failure { error, after })
}

/// How long the server asks to wait, by its own clock where it shows one.
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let now = header(response, DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    let now = now.unwrap_or_else(SystemTime::now);
    header(response, RETRY_AFTER).and_then(|value| pause(value, now))
}

/// Judges the answer to the request for the first bytes. `None` for a range
/// that cannot be had.
pub(super) fn judge_first(url: &Url, response: &Response) -> Result<Option<Told>, Failure> {
    judge_status(url, response)?;
    let is_called_html =
        header(response, CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html"));
    let range = header(response, CONTENT_RANGE).and_then(content_range);
    let length: Option<u64> =
        header(response, CONTENT_LENGTH).and_then(|length| length.parse().ok());
    let (size, coming, ranges) = match (response.status(), range) {
        (StatusCode::OK, _) => (length, length, false),
        (StatusCode::PARTIAL_CONTENT, Some((Some(part), whole))) if part.start == 0 => {
            // Parts of a whole of unknown length have no end to ask up to.
            (whole, Some(part.length), whole.is_some())
        }
        (StatusCode::PARTIAL_CONTENT, _) => {
            return Err(SourceError::WrongRange(shown(url)).into());
        }
        // There is no first byte in an empty file.
        (_, Some((None, Some(0)))) => (Some(0), Some(0), true),
        _ => return Ok(None),
    };
    Ok(Some(Told {
        size,
        coming,
        ranges,
        is_called_html,
    }))
}

/// Whether a validator is one of this answer's. A weak ETag says no less than
/// the strong one of the same name; an answer without any validator of the
/// kind says nothing.
fn is_same(expected: &str, tag: Option<&str>, modified: Option<&str>) -> bool {
    fn opaque(tag: &str) -> &str {
        tag.strip_prefix("W/").unwrap_or(tag)
    }
    if opaque(expected).starts_with('"') {
        return tag.is_none_or(|tag| opaque(tag) == opaque(expected));
    }
    let found = [modified, tag];
    found.contains(&Some(expected)) || found == [None, None]
}

fn judge_same(url: &Url, response: &Response, expected: Option<&str>) -> Result<(), SourceError> {
    let (tag, modified) = (header(response, ETAG), header(response, LAST_MODIFIED));
    match expected {
        Some(expected) if !is_same(expected, tag, modified) => {
            Err(SourceError::SourceChanged(shown(url)))
        }
        _ => Ok(()),
    }
}

/// Judges the answer to the request for `asked`; how many bytes it promises,
/// at least one, from its first on.
pub(super) fn judge_part(
    url: &Url,
    response: &Response,
    asked: Extent,
    size: Option<u64>,
    expected: Option<&str>,
) -> Result<u64, Failure> {
    judge_status(url, response)?;
    judge_same(url, response, expected)?;
    let wrong = || Failure::from(SourceError::WrongRange(shown(url)));
    let changed = || Failure::from(SourceError::SourceChanged(shown(url)));
    let range = header(response, CONTENT_RANGE).and_then(content_range);
    match (response.status(), range) {
        (StatusCode::PARTIAL_CONTENT, Some((Some(part), whole))) => {
            if whole.is_some() && size.is_some() && whole != size {
                return Err(changed());
            }
            // Less than was asked for is allowed, the rest is asked for next.
            if part.start != asked.start || part.end() > asked.end() {
                return Err(wrong());
            }
            Ok(part.length)
        }
        // It had these bytes before.
        (StatusCode::RANGE_NOT_SATISFIABLE, _) => Err(changed()),
        // 200: either the range is ignored this time, or If-Range found that
        // the file is another.
        (StatusCode::OK, _) => {
            let length: Option<u64> =
                header(response, CONTENT_LENGTH).and_then(|length| length.parse().ok());
            Err(if size.is_some() && length.is_some() && length != size {
                changed()
            } else {
                wrong()
            })
        }
        _ => Err(wrong()),
    }
}

/// Judges the answer to a request for the whole file.
pub(super) fn judge_whole(
    url: &Url,
    response: &Response,
    size: Option<u64>,
    expected: Option<&str>,
) -> Result<(), Failure> {
    judge_status(url, response)?;
    judge_same(url, response, expected)?;
    if response.status() != StatusCode::OK {
        return Err(SourceError::WrongRange(shown(url)).into());
    }
    let length: Option<u64> =
        header(response, CONTENT_LENGTH).and_then(|length| length.parse().ok());
    if length.is_some() && size.is_some() && length != size {
        return Err(SourceError::SourceChanged(shown(url)).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read_strictly() {
        let part = |first, end| Some(Extent::between(first, end));
        assert_eq!(
            content_range("bytes 0-99/1234"),
            Some((part(0, 100), Some(1234)))
        );
        assert_eq!(content_range("bytes 5-5/*"), Some((part(5, 6), None)));
        assert_eq!(content_range("bytes */0"), Some((None, Some(0))));
        for wrong in [
            "",
            "bytes",
            "bytes 0-99",
            "bytes 9-0/10",
            "bytes 0-10/10",
            "octets 0-1/2",
            "bytes 0-18446744073709551615/*",
            "bytes -1-2/3",
            "bytes 0-x/2",
        ] {
            assert_eq!(content_range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn validators_are_compared_with_their_like() {
        let (old, new) = (
            "Sat, 21 Nov 2026 10:00:00 GMT",
            "Sat, 21 Nov 2026 10:00:01 GMT",
        );
        for (expected, tag, modified, same) in [
            ("\"v1\"", Some("\"v1\""), Some(new), true),
            ("\"v1\"", Some("W/\"v1\""), None, true),
            ("W/\"v1\"", Some("W/\"v1\""), None, true),
            ("\"v1\"", Some("\"v2\""), Some(old), false),
            ("W/\"v1\"", Some("W/\"v2\""), None, false),
            ("\"v1\"", None, Some(old), true),
            ("\"v1\"", None, None, true),
            (old, None, Some(old), true),
            (old, Some("\"v1\""), Some(old), true),
            (old, Some("\"v1\""), Some(new), false),
            (old, None, Some(new), false),
            (old, None, None, true),
            ("unquoted", Some("unquoted"), Some(new), true),
            ("unquoted", Some("another"), None, false),
        ] {
            assert_eq!(
                is_same(expected, tag, modified),
                same,
                "{expected}: {tag:?} {modified:?}"
            );
        }
    }

    #[test]
    fn pauses_are_seconds_or_dates() {
        let now = httpdate::parse_http_date("Sat, 21 Nov 2026 10:00:00 GMT").unwrap();
        let asked = |value| pause(value, now).map(|pause| pause.as_secs());
        assert_eq!(asked("120"), Some(120));
        assert_eq!(asked("Sat, 21 Nov 2026 10:01:30 GMT"), Some(90));
        assert_eq!(asked("Sat, 21 Nov 2026 09:00:00 GMT"), Some(0));
        assert_eq!(asked("soon"), None);
        assert_eq!(asked("-1"), None);
    }
}
