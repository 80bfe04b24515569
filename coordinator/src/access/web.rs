//! What a web server is shown.

use secrecy::{ExposeSecret, SecretString};

use super::wanted::{WantedHeader, is_reserved};
use super::{Content, Kind, Objects, Reference, Scope, content, invalid, pair};
use crate::agents::source::{Basic, Place, SourceUrl};
use crate::holder::Problem;

/// Keys of user and password, and CDI's names for them.
const LOGIN: [(&str, &str); 2] = [("username", "password"), ("accessKeyId", "secretKey")];

/// Names of the Secrets that let in at a web server.
pub(super) struct Secrets<'a> {
    /// With user and password.
    pub login: Option<&'a str>,
    /// With headers.
    pub headers: &'a [String],
}

/// The server at `url`, and what it is shown.
pub(super) fn place(
    url: &SourceUrl,
    plain: &[WantedHeader],
    secrets: Secrets<'_>,
    scope: Scope<'_>,
    objects: &Objects,
) -> Result<Place, Problem> {
    let login = secrets
        .login
        .map(|name| scope.of_resource(Kind::Secret, name));
    let basic = login
        .as_ref()
        .map(|secret| basic(secret, content(objects, secret)?))
        .transpose()?;
    let mut authorized = basic.is_some();
    let mut headers = Vec::new();
    for header in plain {
        authorized |= is_authorization(&header.name);
        headers.push((header.name.clone(), header.value.clone().into()));
    }
    for name in secrets.headers {
        let secret = scope.of_resource(Kind::Secret, name);
        for (key, value) in &content(objects, &secret)?.values {
            let header = header(&secret, key, value)?;
            if is_authorization(&header.0) && std::mem::replace(&mut authorized, true) {
                return Err(invalid(&secret, "makes a second Authorization header"));
            }
            headers.push(header);
        }
    }
    Ok(Place::Http {
        url: url.clone(),
        basic,
        headers,
    })
}

fn basic(secret: &Reference, content: &Content) -> Result<Basic, Problem> {
    let (username, password) = pair(secret, content, &LOGIN)?;
    if username.contains(':') {
        return Err(invalid(
            secret,
            "has a colon in the user's name, which Basic credentials cannot hold",
        ));
    }
    Ok(Basic {
        username: username.into(),
        password: password.into(),
    })
}

/// A header out of `Name: value`.
fn header(secret: &Reference, key: &str, line: &[u8]) -> Result<(String, SecretString), Problem> {
    let parsed = std::str::from_utf8(line)
        .ok()
        .and_then(|line| line.trim().split_once(':'));
    let Some((name, value)) = parsed else {
        return Err(invalid(
            secret,
            format!("has no header in {key}: one is written as Name: value"),
        ));
    };
    let value: SecretString = value.trim().into();
    let fits = http::HeaderName::from_bytes(name.as_bytes()).is_ok()
        && value.expose_secret().is_ascii()
        && http::HeaderValue::from_str(value.expose_secret()).is_ok();
    if !fits {
        return Err(invalid(
            secret,
            format!("has a header in {key} that no request can hold"),
        ));
    }
    if is_reserved(name) {
        return Err(invalid(
            secret,
            format!(
                "has the header {name} in {key}, which is the transfer's own, or of one connection only"
            ),
        ));
    }
    Ok((name.to_owned(), value))
}

fn is_authorization(name: &str) -> bool {
    name.eq_ignore_ascii_case("authorization")
}
