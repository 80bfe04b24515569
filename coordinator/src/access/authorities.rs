//! Certificates of authorities that a source's server is trusted by.

use hypercloud_api::CaReference;
use x509_parser::pem::Pem;

use super::{Content, Kind, Objects, Reference, Scope, content, invalid};
use crate::holder::Problem;

/// What begins a certificate.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";

/// The certificates that the resource names, as PEM.
pub(super) fn of_resource(
    ca: Option<&CaReference>,
    scope: Scope<'_>,
    objects: &Objects,
) -> Result<Option<String>, Problem> {
    let Some(ca) = ca else {
        return Ok(None);
    };
    let map = scope.of_resource(Kind::ConfigMap, &ca.name);
    let content = content(objects, &map)?;
    certificates(&map, content, ca.key.as_deref()).map(Some)
}

/// The certificates in a ConfigMap: at the key that is named, else at every
/// key that holds some.
pub(super) fn certificates(
    map: &Reference,
    content: &Content,
    key: Option<&str>,
) -> Result<String, Problem> {
    let mut bundle = String::new();
    let mut add = |key: &str, value: &[u8]| {
        let text = std::str::from_utf8(value).unwrap_or_default();
        if text.contains(BEGIN) {
            check(map, key, value)?;
            bundle.push_str(text.trim_end());
            bundle.push('\n');
        }
        Ok(())
    };
    match key {
        Some(key) => {
            let value = content.values.get(key);
            let value = value.ok_or_else(|| invalid(map, format!("has no key {key}")))?;
            add(key, value)?;
        }
        None => {
            for (key, value) in &content.values {
                add(key, value)?;
            }
        }
    }
    if bundle.is_empty() {
        return Err(bad(map, "holds no certificate in PEM form"));
    }
    Ok(bundle)
}

/// Refuses what a server's certificate could not be checked against.
fn check(map: &Reference, key: &str, value: &[u8]) -> Result<(), Problem> {
    let broken = || bad(map, &format!("has a certificate in {key} that is broken"));
    for block in Pem::iter_from_buffer(value) {
        let block = block.map_err(|_| broken())?;
        if block.label == "CERTIFICATE" && block.parse_x509().is_err() {
            return Err(broken());
        }
    }
    Ok(())
}

fn bad(map: &Reference, what: &str) -> Problem {
    Problem {
        reason: "InvalidCertificate".to_owned(),
        ..invalid(map, what)
    }
}
