//! The source that a specification names: where it is, and by which objects
//! it is reached. Values and names only, never what a Secret holds. Pure.

use std::fmt;

use hypercloud_api::{CaReference, ImageSource, RESERVED_HEADERS, StoredObject};
use url::Url;

use super::validate::Invalid;
use crate::agents::source::SourceUrl;

/// A source, with the names of what lets in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedSource {
    /// Where it is.
    pub place: WantedPlace,
    /// Name of the Secret that lets in.
    pub secret: Option<String>,
    /// ConfigMap with certificates to trust.
    pub ca: Option<CaReference>,
}

/// Where a source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedPlace {
    /// At a web server.
    Http {
        /// Its address.
        url: SourceUrl,
        /// Headers that stand in the resource.
        headers: Vec<WantedHeader>,
        /// Names of the Secrets that hold further ones.
        secret_headers: Vec<String>,
    },
    /// In an object store.
    Object(WantedObject),
}

/// A header that stands in the resource.
#[derive(Clone, PartialEq, Eq)]
pub struct WantedHeader {
    /// Its name.
    pub name: String,
    /// Its value, which is not shown: it may be meant to be secret.
    pub value: String,
}

impl fmt::Debug for WantedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WantedHeader")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// An object, as far as the resource says where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedObject {
    /// Name of the bucket.
    pub bucket: Option<String>,
    /// Key of the object.
    pub key: String,
    /// Address of the store.
    pub endpoint: Option<String>,
    /// Region that requests are signed for.
    pub region: Option<String>,
    /// Whether the bucket stands in the path.
    pub path_style: Option<bool>,
    /// Name of the ObjectBucketClaim that says the rest.
    pub claim: Option<String>,
}

/// The source that `source` names.
pub fn wanted(source: &ImageSource) -> Result<WantedSource, Invalid> {
    let object = source.object_store.as_ref();
    let claim = object.and_then(|object| object.object_bucket_claim.as_ref());
    let names = source.secret_ref.iter().map(|secret| &secret.name);
    names
        .chain(source.secret_headers.iter().map(|secret| &secret.name))
        .chain(source.ca_config_map.iter().map(|map| &map.name))
        .chain(&source.cert_config_map)
        .chain(claim.map(|claim| &claim.name))
        .try_for_each(|name| judge_name(name))?;
    let place = match (&source.http, &source.object_store) {
        (Some(url), None) => web(source, url)?,
        (None, Some(object)) => WantedPlace::Object(store(object)?),
        _ => return Err(Invalid::SourceMissing),
    };
    Ok(WantedSource {
        place,
        secret: source.secret_ref.as_ref().map(|secret| secret.name.clone()),
        ca: source.ca(),
    })
}

fn web(source: &ImageSource, text: &str) -> Result<WantedPlace, Invalid> {
    address("http", text)?;
    let mut headers = Vec::new();
    for header in &source.headers {
        if is_reserved(&header.name) {
            return Err(Invalid::Header {
                name: header.name.clone(),
            });
        }
        headers.push(WantedHeader {
            name: header.name.clone(),
            value: header.value.clone(),
        });
    }
    let secrets = source.secret_headers.iter();
    Ok(WantedPlace::Http {
        url: SourceUrl::new(text),
        headers,
        secret_headers: secrets.map(|secret| secret.name.clone()).collect(),
    })
}

fn store(object: &StoredObject) -> Result<WantedObject, Invalid> {
    let claim = object.object_bucket_claim.as_ref();
    if object.bucket_name.is_none() && claim.is_none() {
        return Err(Invalid::BucketMissing);
    }
    if let Some(endpoint) = &object.endpoint {
        address("objectStore.endpoint", endpoint)?;
    }
    Ok(WantedObject {
        bucket: object.bucket_name.clone(),
        key: object.object_name.clone(),
        endpoint: object.endpoint.clone(),
        region: object.region.clone(),
        path_style: object.force_path_style,
        claim: claim.map(|claim| claim.name.clone()),
    })
}

/// Refuses what cannot be an object's name: it becomes part of a path to the
/// API server.
fn judge_name(name: &str) -> Result<(), Invalid> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = name.len() <= 253
        && name.chars().all(plain)
        && name.starts_with(edge)
        && name.ends_with(edge)
        && !name.contains("..");
    if is_name {
        Ok(())
    } else {
        Err(Invalid::ReferenceName {
            name: name.to_owned(),
        })
    }
}

/// Refuses what is no address of a web server.
fn address(field: &'static str, text: &str) -> Result<(), Invalid> {
    let url = Url::parse(text).map_err(|error| Invalid::SourceUrl {
        field,
        problem: error.to_string(),
    })?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(Invalid::SourceUrl {
            field,
            problem: format!("its scheme is {}", url.scheme()),
        });
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Invalid::SourceUrl {
            field,
            problem: "it holds credentials, which belong into a Secret: see source.secretRef"
                .to_owned(),
        });
    }
    Ok(())
}

/// Whether a header is the transfer's own, or of one connection only.
pub fn is_reserved(name: &str) -> bool {
    RESERVED_HEADERS
        .iter()
        .any(|reserved| reserved.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_name_and_no_path() {
        assert_eq!(judge_name("web-access.v1"), Ok(()));
        for name in [
            "",
            "my secret",
            "../../kube-system/secrets/x",
            "a/b",
            "-a",
            "a..b",
            "A",
        ] {
            assert!(judge_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn an_address_holds_no_credentials() {
        assert_eq!(address("http", "https://a.example/x"), Ok(()));
        for text in [
            "https://me:word@a.example/x",
            "https://me@a.example/",
            "ftp://a.example/",
        ] {
            let error = address("http", text).unwrap_err().to_string();
            assert!(!error.contains("word"), "{error}");
        }
    }
}
