//! Sending a request, and following where it is redirected.

use reqwest::header::{ACCEPT_ENCODING, IF_RANGE, LOCATION, RANGE};
use reqwest::{Client, Response, StatusCode};
use url::Url;

use super::Asking;
use super::answer::Failure;
use crate::error::SourceError;
use crate::options::Options;
use crate::source::address::{Refused, judge_literal};
use crate::source::client::{explain, shown};

/// The most redirects that are followed.
const HOPS: usize = 10;

/// Asks `url`, and wherever that redirects to; the answer, which is no
/// redirect, and the URL that gave it.
pub(super) async fn follow(
    client: &Client,
    options: &Options,
    mut url: Url,
    asking: Asking<'_>,
) -> Result<(Response, Url), Failure> {
    let first = shown(&url);
    for _ in 0..=HOPS {
        let response = send(client, options, &url, asking).await?;
        let moved = matches!(
            response.status(),
            StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT
        );
        if !moved {
            return Ok((response, url));
        }
        let location = response
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        url = location
            .and_then(|location| next(&url, location))
            .ok_or_else(|| SourceError::InvalidRedirect(shown(&url)))?;
    }
    Err(SourceError::TooManyRedirects(first).into())
}

/// Where a redirect leads. Credentials stay with their origin: a redirect
/// neither takes them elsewhere nor brings its own.
fn next(url: &Url, location: &str) -> Option<Url> {
    let mut next = url.join(location).ok()?;
    if !matches!(next.scheme(), "http" | "https") {
        // Without an authority there is nothing to remove; it is refused.
        return Some(next);
    }
    let (user, password) = if next.origin() == url.origin() {
        (url.username(), url.password())
    } else {
        ("", None)
    };
    next.set_username(user).ok()?;
    next.set_password(password).ok()?;
    Some(next)
}

async fn send(
    client: &Client,
    options: &Options,
    url: &Url,
    asking: Asking<'_>,
) -> Result<Response, Failure> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(SourceError::UnsupportedScheme(shown(url)).into());
    }
    if let Err(Refused(address)) = judge_literal(options.address_policy, url) {
        return Err(SourceError::AddressRefused {
            location: shown(url),
            address,
        }
        .into());
    }
    let mut request = client.get(url.clone()).header(ACCEPT_ENCODING, "identity");
    if let Some(range) = asking.range {
        request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end() - 1));
        if let Some(validator) = asking.if_range {
            request = request.header(IF_RANGE, validator);
        }
    }
    let patience = options.connect_timeout + options.stall_timeout;
    match tokio::time::timeout(patience, request.send()).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(explain(url, error).into()),
        Err(_) => Err(SourceError::Stalled(shown(url)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(from: &str, location: &str) -> Option<String> {
        next(&Url::parse(from).unwrap(), location).map(String::from)
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let from = "https://me:secret@a.example/x";
        assert_eq!(led(from, "/y").unwrap(), "https://me:secret@a.example/y");
        assert_eq!(
            led(from, "https://a.example/y").unwrap(),
            "https://me:secret@a.example/y"
        );
        assert_eq!(
            led(from, "https://b.example/y").unwrap(),
            "https://b.example/y"
        );
        assert_eq!(
            led(from, "https://a.example:8443/y").unwrap(),
            "https://a.example:8443/y"
        );
        assert_eq!(
            led(from, "http://a.example/y").unwrap(),
            "http://a.example/y"
        );
        assert_eq!(
            led(from, "https://you:word@b.example/y").unwrap(),
            "https://b.example/y"
        );
    }

    #[test]
    fn nonsense_leads_nowhere() {
        assert_eq!(led("http://a.example/", "http://[").as_deref(), None);
    }
}
