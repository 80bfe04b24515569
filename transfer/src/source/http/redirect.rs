//! Where redirects lead.

use reqwest::StatusCode;
use url::Url;

use super::credentials::without_user;
use crate::error::SourceError;
use crate::source::client::shown;

/// The most redirects that are followed.
pub(super) const HOPS: usize = 10;

/// Whether an answer sends on.
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    )
}

/// Where a redirect leads. It brings no credentials of its own. From https to
/// http it is followed as curl does, unless the address is `guarded`: what is
/// asked for with credentials, or of a server that must prove itself by a
/// given authority, is not for others on the way to read or change.
pub(super) fn next(url: &Url, location: Option<&str>, guarded: bool) -> Result<Url, SourceError> {
    let next = location
        .and_then(|location| url.join(location).ok())
        .ok_or_else(|| SourceError::InvalidRedirect(shown(url)))?;
    if guarded && url.scheme() == "https" && next.scheme() == "http" {
        return Err(SourceError::InsecureRedirect(shown(url)));
    }
    Ok(without_user(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(from: &str, location: &str, guarded: bool) -> Option<String> {
        next(&Url::parse(from).unwrap(), Some(location), guarded)
            .ok()
            .map(String::from)
    }

    #[test]
    fn redirects_lead_on_without_credentials() {
        let from = "https://a.example/x?q";
        for (location, to) in [
            ("/y", "https://a.example/y"),
            ("y?z", "https://a.example/y?z"),
            ("//b.example/y", "https://b.example/y"),
            ("https://you:word@b.example/y", "https://b.example/y"),
        ] {
            assert_eq!(led(from, location, true).as_deref(), Some(to));
        }
    }

    #[test]
    fn what_is_guarded_stays_encrypted() {
        let (plain, secure) = ("http://a.example/x", "https://a.example/x");
        assert_eq!(led(secure, plain, true), None);
        assert_eq!(led(secure, plain, false).as_deref(), Some(plain));
        assert_eq!(led(plain, plain, true).as_deref(), Some(plain));
        assert_eq!(led(plain, secure, true).as_deref(), Some(secure));
    }

    #[test]
    fn nonsense_leads_nowhere() {
        assert_eq!(led("http://a.example/", "http://[", false), None);
        assert!(next(&Url::parse("http://a.example/").unwrap(), None, false).is_err());
    }
}
