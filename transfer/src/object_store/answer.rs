//! What a store's refusal means.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_smithy_xml::decode::{Document, try_data};

use super::ObjectStoreError;

/// What was asked of a store, and by whom.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The store's address, as it may be shown.
    pub(super) store: String,
    pub(super) bucket: String,
    pub(super) key: String,
    /// The region that the requests are signed for.
    pub(super) region: String,
    pub(super) by: By,
    pub(super) to: To,
}

/// What for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    Read,
    Write,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// Whoever the environment says; what expires is made anew.
    Environment,
    /// The holder of the keys that were given.
    Keys,
    /// Anybody.
    Anybody,
}

impl Asked {
    /// The object as people write it.
    pub(super) fn location(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.key)
    }

    /// That it is not allowed.
    pub(super) fn denied(&self) -> ObjectStoreError {
        let location = self.location();
        match (self.by, self.to) {
            (By::Anybody, _) => ObjectStoreError::CredentialsRequired(location),
            (_, To::Read) => ObjectStoreError::AccessDenied(location),
            (_, To::Write) => ObjectStoreError::WriteDenied(location),
        }
    }
}

/// An answer that is no object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    /// The header `x-amz-bucket-region`.
    pub(super) region: Option<&'a str>,
    /// The header `Date`.
    pub(super) date: Option<&'a str>,
    /// The body, or its beginning.
    pub(super) body: &'a [u8],
}

/// The error document of the protocol, as far as it is of use.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    code: String,
    message: String,
    region: Option<String>,
}

fn read(body: &[u8]) -> Option<Told> {
    let text = std::str::from_utf8(body).ok()?;
    let mut document = Document::new(text);
    let mut root = document.root_element().ok()?;
    if root.start_el().local() != "Error" {
        return None;
    }
    let mut told = Told::default();
    while let Some(mut tag) = root.next_tag() {
        match tag.start_el().local() {
            "Code" => told.code = try_data(&mut tag).ok()?.trim().to_owned(),
            "Message" => told.message = try_data(&mut tag).ok()?.trim().to_owned(),
            "Region" => told.region = Some(try_data(&mut tag).ok()?.trim().to_owned()),
            _ => {}
        }
    }
    (!told.code.is_empty()).then_some(told)
}

/// A stranger's words, short and on one line.
fn tamed(words: &str) -> String {
    let line = |c: char| if c.is_control() { ' ' } else { c };
    words.chars().map(line).take(200).collect()
}

/// By how many seconds this machine's clock is ahead of the store's.
fn skew(date: Option<&str>, now: SystemTime) -> Option<i64> {
    let theirs = httpdate::parse_http_date(date?).ok()?;
    let seconds = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    };
    seconds(now)?.checked_sub(seconds(theirs)?)
}

/// What an answer means, given the time `now`; `None` where it is no word of
/// an object store, and its status says all.
pub(super) fn explain(
    asked: &Asked,
    answer: Answer<'_>,
    now: SystemTime,
) -> Option<ObjectStoreError> {
    let store = asked.store.clone();
    let wrong_region = |found: Option<String>| ObjectStoreError::WrongRegion {
        bucket: asked.bucket.clone(),
        asked: asked.region.clone(),
        found,
    };
    let header_region = answer.region.filter(|region| *region != asked.region);
    let Some(told) = read(answer.body) else {
        // A redirect without an address, or nothing but the header.
        let elsewhere = matches!(answer.status, 301 | 307 | 400);
        return header_region
            .filter(|_| elsewhere)
            .map(|region| wrong_region(Some(tamed(region))));
    };
    let skewed = || ObjectStoreError::ClockSkewed {
        store: store.clone(),
        seconds: skew(answer.date, now),
    };
    // The words for a signature whose time is not now.
    let out_of_time = |message: &str| {
        let message = message.to_ascii_lowercase();
        message.contains("request has expired") || message.contains("not yet valid")
    };
    Some(match told.code.as_str() {
        "NoSuchBucket" => ObjectStoreError::NoSuchBucket {
            store,
            bucket: asked.bucket.clone(),
        },
        "NoSuchKey" | "NoSuchVersion" => ObjectStoreError::NoSuchKey {
            bucket: asked.bucket.clone(),
            key: asked.key.clone(),
        },
        "InvalidBucketName" => ObjectStoreError::InvalidBucketName(asked.bucket.clone()),
        "AccessDenied" if out_of_time(&told.message) => skewed(),
        "RequestTimeTooSkewed" | "RequestExpired" => skewed(),
        "AccessDenied" | "AllAccessDisabled" | "AccountProblem" => asked.denied(),
        "InvalidAccessKeyId" | "NotSignedUp" => ObjectStoreError::UnknownAccessKey(store),
        "SignatureDoesNotMatch" => ObjectStoreError::SignatureDoesNotMatch(store),
        "ExpiredToken" | "TokenRefreshRequired" => match asked.by {
            By::Environment => ObjectStoreError::CredentialsExpired(store),
            By::Keys | By::Anybody => ObjectStoreError::KeysExpired(store),
        },
        "InvalidToken" => ObjectStoreError::InvalidToken(store),
        "PermanentRedirect"
        | "TemporaryRedirect"
        | "AuthorizationHeaderMalformed"
        | "AuthorizationQueryParametersError"
        | "IllegalLocationConstraintException" => {
            let found = told.region.as_deref().or(header_region).map(tamed);
            // The same region: it is something else that is malformed.
            if found.is_none() && told.code.starts_with("Authorization") {
                return Some(said(store, answer.status, &told));
            }
            wrong_region(found)
        }
        "PreconditionFailed" => ObjectStoreError::ObjectExists(asked.location()),
        "NoSuchUpload" => ObjectStoreError::NoSuchUpload(asked.location()),
        "InvalidPart" | "InvalidPartOrder" | "EntityTooSmall" => ObjectStoreError::PartRefused {
            location: asked.location(),
            message: tamed(&told.message),
        },
        "EntityTooLarge" => ObjectStoreError::ObjectTooLarge(asked.location()),
        "QuotaExceeded" | "InsufficientStorage" | "XMinioStorageFull" => {
            ObjectStoreError::StoreFull(store)
        }
        "InvalidObjectState" => ObjectStoreError::Archived(asked.location()),
        "SlowDown" | "ServiceUnavailable" | "Throttling" | "RequestLimitExceeded" => {
            ObjectStoreError::SlowDown(store)
        }
        _ => said(store, answer.status, &told),
    })
}

fn said(store: String, status: u16, told: &Told) -> ObjectStoreError {
    ObjectStoreError::Answered {
        store,
        status,
        code: tamed(&told.code),
        message: tamed(&told.message),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn asked(by: By) -> Asked {
        Asked {
            store: "http://store:9000".into(),
            bucket: "images".into(),
            key: "a/disk".into(),
            region: "us-east-1".into(),
            by,
            to: To::Read,
        }
    }

    fn error(code: &str, rest: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>{rest}\
             <RequestId>1</RequestId><HostId>x</HostId></Error>"
        )
    }

    fn answer(status: u16, body: &str) -> Answer<'_> {
        Answer {
            status,
            region: None,
            date: None,
            body: body.as_bytes(),
        }
    }

    fn explained(by: By, status: u16, body: &str) -> ObjectStoreError {
        explain(&asked(by), answer(status, body), SystemTime::now()).unwrap()
    }

    #[test]
    fn each_code_is_its_own_kind() {
        let expired = "<Message>Request has expired</Message>";
        for (by, status, code, rest, reason, again) in [
            (By::Keys, 404, "NoSuchBucket", "", "NoSuchBucket", false),
            (By::Keys, 404, "NoSuchKey", "", "NoSuchKey", false),
            (By::Keys, 403, "AccessDenied", "", "AccessDenied", false),
            (
                By::Anybody,
                403,
                "AccessDenied",
                "",
                "CredentialsRequired",
                false,
            ),
            (By::Keys, 403, "AccessDenied", expired, "ClockSkewed", true),
            (
                By::Keys,
                403,
                "RequestTimeTooSkewed",
                "",
                "ClockSkewed",
                true,
            ),
            (
                By::Keys,
                403,
                "InvalidAccessKeyId",
                "",
                "UnknownAccessKey",
                false,
            ),
            (
                By::Keys,
                403,
                "SignatureDoesNotMatch",
                "",
                "SignatureDoesNotMatch",
                false,
            ),
            (By::Keys, 400, "ExpiredToken", "", "KeysExpired", false),
            (
                By::Environment,
                400,
                "ExpiredToken",
                "",
                "CredentialsExpired",
                true,
            ),
            (By::Keys, 400, "InvalidToken", "", "InvalidToken", false),
            (By::Keys, 301, "PermanentRedirect", "", "WrongRegion", false),
            (
                By::Keys,
                400,
                "IllegalLocationConstraintException",
                "",
                "WrongRegion",
                false,
            ),
            (
                By::Keys,
                403,
                "InvalidObjectState",
                "",
                "ObjectArchived",
                false,
            ),
            (
                By::Keys,
                400,
                "InvalidBucketName",
                "",
                "InvalidBucketName",
                false,
            ),
            (
                By::Keys,
                412,
                "PreconditionFailed",
                "",
                "ObjectExists",
                false,
            ),
            (By::Keys, 404, "NoSuchUpload", "", "NoSuchUpload", true),
            (By::Keys, 400, "InvalidPart", "", "PartRefused", true),
            (By::Keys, 400, "EntityTooLarge", "", "ObjectTooLarge", false),
            (By::Keys, 403, "QuotaExceeded", "", "StoreFull", true),
            (
                By::Keys,
                400,
                "RequestTimeout",
                "",
                "ObjectStoreError",
                true,
            ),
            (By::Keys, 400, "BadDigest", "", "ObjectStoreError", true),
            (
                By::Keys,
                501,
                "NotImplemented",
                "",
                "ObjectStoreError",
                false,
            ),
            (By::Keys, 503, "SlowDown", "", "SlowDown", true),
            (By::Keys, 500, "InternalError", "", "ObjectStoreError", true),
            (By::Keys, 400, "Unheard", "", "ObjectStoreError", false),
        ] {
            let explained = explained(by, status, &error(code, rest));
            assert_eq!(explained.reason(), reason, "{code}");
            assert_eq!(explained.is_retryable(), again, "{code}");
        }
    }

    #[test]
    fn who_may_not_write_is_told_what_that_takes() {
        let asked = Asked {
            to: To::Write,
            ..asked(By::Keys)
        };
        let body = error("AccessDenied", "");
        let refused = explain(&asked, answer(403, &body), SystemTime::now()).unwrap();
        assert_eq!(refused.reason(), "AccessDenied");
        assert!(refused.to_string().contains("s3:PutObject"), "{refused}");
    }

    #[test]
    fn the_right_region_is_told() {
        let body = error("AuthorizationHeaderMalformed", "<Region>eu-west-3</Region>");
        let words = explained(By::Keys, 400, &body).to_string();
        assert!(
            words.contains("eu-west-3") && words.contains("us-east-1"),
            "{words}"
        );
        for body in [String::new(), error("PermanentRedirect", "")] {
            let answer = Answer {
                region: Some("ap-south-1"),
                ..answer(301, &body)
            };
            let words = explain(&asked(By::Keys), answer, SystemTime::now())
                .unwrap()
                .to_string();
            assert!(words.contains("ap-south-1"), "{words}");
        }
        // Not about the region at all.
        let body = error("AuthorizationHeaderMalformed", "<Message>no</Message>");
        assert_eq!(explained(By::Keys, 400, &body).reason(), "ObjectStoreError");
    }

    #[test]
    fn the_clocks_are_compared() {
        let body = error("RequestTimeTooSkewed", "");
        let theirs = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let answer = Answer {
            date: Some("Sun, 06 Nov 1994 08:49:37 GMT"),
            ..answer(403, &body)
        };
        let now = theirs + Duration::from_secs(1200);
        let words = explain(&asked(By::Keys), answer, now).unwrap().to_string();
        assert!(words.contains("1200 s ahead"), "{words}");
    }

    #[test]
    fn what_is_no_word_of_a_store_is_left_to_its_status() {
        for body in [
            "",
            "<html><body>Not found</body></html>",
            "<Error/>",
            "<Error><Code>",
        ] {
            let answer = answer(404, body);
            assert!(
                explain(&asked(By::Keys), answer, SystemTime::now()).is_none(),
                "{body}"
            );
        }
    }

    #[test]
    fn a_strangers_words_are_tamed() {
        let long = format!("<Message>a&#10;b&#27;c{}</Message>", "x".repeat(5000));
        let words = explained(By::Keys, 418, &error("Odd", &long)).to_string();
        assert!(
            words.len() < 400 && !words.contains(char::is_control),
            "{words}"
        );
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_left(
            cut in 0usize..200,
            place in 0usize..200,
            byte: u8,
            noise in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut body = error("NoSuchKey", "<Message>a</Message>").into_bytes();
            let place = place % body.len();
            body[place] = byte;
            body.truncate(body.len().saturating_sub(cut % 64));
            for body in [&body, &noise] {
                let _ = read(body);
            }
        }

        #[test]
        fn any_tags_are_read_or_left(tags in "(</?(Error|Code|a)/?>| |x|&){0,12}") {
            let _ = read(tags.as_bytes());
        }
    }
}
