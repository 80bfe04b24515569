//! What a server is shown: Basic credentials and headers, at their own origin
//! only.

use percent_encoding::percent_decode_str;
use reqwest::RequestBuilder;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use url::{Origin, Url};

use crate::error::SourceError;
use crate::request::{BasicCredentials, Header, HttpAccess};
use crate::secret::Secret;

/// Headers that decide what is asked, or how it travels: the engine's own.
const RESERVED: [HeaderName; 18] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::IF_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::IF_UNMODIFIED_SINCE,
    header::PROXY_AUTHORIZATION,
    header::RANGE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The same, without a constant.
const ALSO_RESERVED: [&str; 2] = ["keep-alive", "proxy-connection"];

/// What is shown at one origin.
pub(super) struct Credentials {
    basic: Option<BasicCredentials>,
    headers: HeaderMap,
}

impl Credentials {
    /// Judges what is given. Those of the address's user part count where no
    /// others are given.
    pub(super) fn new(access: &HttpAccess, url: Option<&Url>) -> Result<Self, SourceError> {
        let basic = access.basic.clone().or_else(|| url.and_then(user_part));
        if basic
            .as_ref()
            .is_some_and(|basic| basic.username.contains(':'))
        {
            return Err(SourceError::InvalidHeader {
                header: "the user's name".into(),
                problem: "it has a colon, which ends a name in Basic credentials",
            });
        }
        let mut headers = HeaderMap::new();
        for (index, given) in access.headers.iter().enumerate() {
            let (name, value) = read(index + 1, given)?;
            if name == header::AUTHORIZATION && basic.is_some() {
                return Err(SourceError::InvalidHeader {
                    header: "the header authorization".into(),
                    problem: "a user and a password are given as well, which is one too many",
                });
            }
            headers.append(name, value);
        }
        Ok(Self { basic, headers })
    }

    /// Whether there is nothing to show.
    pub(super) fn is_empty(&self) -> bool {
        self.basic.is_none() && self.headers.is_empty()
    }

    /// A request that shows them, where it goes to their `origin`.
    pub(super) fn show(
        &self,
        request: RequestBuilder,
        url: &Url,
        origin: &Origin,
    ) -> RequestBuilder {
        if url.origin() != *origin {
            return request;
        }
        let request = request.headers(self.headers.clone());
        match &self.basic {
            Some(basic) => request.basic_auth(&basic.username, Some(basic.password.reveal())),
            None => request,
        }
    }
}

/// An address without its user part.
pub(super) fn without_user(mut url: Url) -> Url {
    // Neither fails for http URLs, and others are not asked.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

fn user_part(url: &Url) -> Option<BasicCredentials> {
    let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let password = url.password().unwrap_or_default();
    let given = !url.username().is_empty() || !password.is_empty();
    given.then(|| BasicCredentials {
        username: decoded(url.username()),
        password: Secret::new(decoded(password)),
    })
}

/// A header as it is sent. Blanks around a value are no part of it, such as
/// the line's end that a file has.
fn read(number: usize, given: &Header) -> Result<(HeaderName, HeaderValue), SourceError> {
    let invalid = |header, problem| SourceError::InvalidHeader { header, problem };
    // A broken name may well be a whole header, with its value.
    let name = HeaderName::from_bytes(given.name.as_bytes()).map_err(|_| {
        let header = format!("the header of number {number}");
        invalid(header, "what is given as its name is none")
    })?;
    let header = || format!("the header {name}");
    if RESERVED.contains(&name) || ALSO_RESERVED.contains(&name.as_str()) {
        return Err(invalid(header(), "it is for the engine alone to set"));
    }
    let mut value = HeaderValue::from_str(given.value.reveal().trim())
        .map_err(|_| invalid(header(), "its value holds control characters"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(
        url: &str,
        basic: Option<(&str, &str)>,
        headers: &[(&str, &str)],
    ) -> Result<Credentials, SourceError> {
        let access = HttpAccess {
            basic: basic.map(|(user, password)| BasicCredentials {
                username: user.into(),
                password: Secret::new(password),
            }),
            headers: headers
                .iter()
                .map(|(name, value)| Header {
                    name: (*name).into(),
                    value: Secret::new(*value),
                })
                .collect(),
            authorities: None,
        };
        Credentials::new(&access, Some(&Url::parse(url).unwrap()))
    }

    #[test]
    fn headers_of_the_engine_and_broken_ones_are_refused_without_their_values() {
        let refused = [
            ("Host", "hunter2"),
            ("range", "hunter2"),
            ("If-Range", "hunter2"),
            ("ACCEPT-ENCODING", "hunter2"),
            ("Content-Length", "hunter2"),
            ("connection", "hunter2"),
            ("Keep-Alive", "hunter2"),
            ("Transfer-Encoding", "hunter2"),
            ("", "hunter2"),
            ("X-Token: hunter2", ""),
            ("X Token", "hunter2"),
            ("X-Token", "hunter2\r\nHost: b"),
            ("X-Token", "hunter2\0"),
        ];
        for (name, value) in refused {
            let error = judged("http://a/", None, &[(name, value)]).err().unwrap();
            assert!(
                matches!(error, SourceError::InvalidHeader { .. }),
                "{name}: {error}"
            );
            assert!(!error.to_string().contains("nter2"), "{error}");
        }
    }

    #[test]
    fn one_kind_of_credentials_is_enough() {
        let token = [("authorization", "Bearer x")];
        assert!(judged("http://a/", None, &token).is_ok());
        assert!(judged("http://me@a/", None, &token).is_err());
        assert!(judged("http://a/", Some(("me", "word")), &token).is_err());
        assert!(judged("http://a/", Some(("m:e", "word")), &[]).is_err());
        assert!(judged("http://a/", None, &[]).unwrap().is_empty());
    }

    #[test]
    fn they_are_shown_at_their_origin_only() {
        let credentials = judged(
            "https://m%40e:w%3Ard@a.example/",
            None,
            &[("x-token", " t\n")],
        );
        let credentials = credentials.unwrap();
        let origin = Url::parse("https://a.example/").unwrap().origin();
        let tls = hypercloud_trust::configuration(None).unwrap();
        let client = reqwest::Client::builder().tls_backend_preconfigured(tls);
        let client = client.build().unwrap();
        let shown = |url: &str| {
            let url = Url::parse(url).unwrap();
            let request = client.get(url.clone());
            let request = credentials.show(request, &url, &origin).build().unwrap();
            let header =
                |name: &str| Some(request.headers().get(name)?.to_str().unwrap().to_owned());
            (header("authorization"), header("x-token"))
        };
        let all = (
            // m@e:w:rd
            Some("Basic bUBlOnc6cmQ=".to_owned()),
            Some("t".to_owned()),
        );
        assert_eq!(shown("https://a.example/b"), all);
        assert_eq!(shown("https://a.example:443/b"), all);
        for elsewhere in [
            "http://a.example/b",
            "https://a.example:8443/b",
            "https://b.a.example/b",
            "https://a.example.org/b",
        ] {
            assert_eq!(shown(elsewhere), (None, None), "{elsewhere}");
        }
    }
}
