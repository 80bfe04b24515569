//! From the words of the command line to a source.

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use hypercloud_transfer::{
    Header, HttpAccess, HttpSource, ObjectStore, ObjectStoreCredentials, Secret, SourceSpec,
    StoredObject,
};
use url::Url;

#[derive(Debug, Args)]
pub(crate) struct SourceArguments {
    /// The image: an http or https address, s3://BUCKET/KEY with the key as
    /// it is, or a path
    #[arg(value_parser = Named::parse)]
    source: Named,
    /// Trust the authorities in this file of certificates (PEM) as well
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Send a header to the address's origin, written NAME: VALUE; may be
    /// repeated
    #[arg(long = "header", value_name = "HEADER", value_parser = header)]
    headers: Vec<Header>,
    #[command(flatten)]
    store: StoreArguments,
}

fn header(text: &str) -> Result<Header, String> {
    match text.split_once(':') {
        Some((name, value)) => Ok(Header {
            name: name.trim().to_owned(),
            value: Secret::new(value.trim()),
        }),
        None => Err("a header is written NAME: VALUE".to_owned()),
    }
}

/// Where objects are, for s3:// sources and targets.
///
/// The credentials are the environment's: `AWS_ACCESS_KEY_ID` and
/// `AWS_SECRET_ACCESS_KEY`, a profile, a web identity token, or the machine's
/// role.
#[derive(Debug, Args)]
#[command(next_help_heading = "Object stores (s3://)")]
pub(crate) struct StoreArguments {
    /// Address of the store; Amazon's for the region where none is given
    #[arg(long, value_name = "URL")]
    endpoint: Option<Url>,
    /// Region that requests are signed for; the environment's, or us-east-1,
    /// where none is given
    #[arg(long)]
    region: Option<String>,
    /// Put the bucket into the path, not before the host's name
    #[arg(long)]
    path_style: bool,
    /// Use no credentials
    #[arg(long)]
    anonymous: bool,
}

/// What is wrong with the options of a source or a target.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceUsage {
    /// One that the source has no use for.
    #[error("{option} is for {kind} sources only")]
    Misplaced {
        option: &'static str,
        kind: &'static str,
    },
    /// One that the target has no use for.
    #[error("{0} is for s3:// targets only")]
    NotForFiles(&'static str),
    /// A file of certificates that cannot be read.
    #[error("reading the certificates in {0} failed: {1}")]
    Certificates(String, std::io::Error),
}

/// An object by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectName {
    pub(crate) bucket: String,
    pub(crate) key: String,
}

impl ObjectName {
    /// Reads `s3://BUCKET/KEY`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        // A key is anything, so this is no URL.
        let name = text
            .strip_prefix("s3://")
            .and_then(|name| name.split_once('/'));
        match name {
            Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => Ok(Self {
                bucket: bucket.to_owned(),
                key: key.to_owned(),
            }),
            _ => Err("an object is written s3://BUCKET/KEY".to_owned()),
        }
    }

    pub(crate) fn in_store(self, store: ObjectStore) -> StoredObject {
        StoredObject {
            bucket: self.bucket,
            key: self.key,
            store,
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, self.key)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    Address(Url),
    Object(ObjectName),
    Path(PathBuf),
}

impl Named {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once("://") {
            Some(("http" | "https", _)) => Url::parse(text)
                .map(Self::Address)
                .map_err(|error| error.to_string()),
            Some(("s3", _)) => ObjectName::parse(text).map(Self::Object),
            Some((scheme, _)) => Err(format!(
                "{scheme} is not supported, only http, https, s3 and paths"
            )),
            None => Ok(Self::Path(text.into())),
        }
    }
}

impl SourceArguments {
    /// The source that is meant.
    ///
    /// # Errors
    /// [`SourceUsage`] when there is an option that it has no use for, or one
    /// that names nothing.
    pub(crate) fn spec(self) -> Result<SourceSpec, SourceUsage> {
        let is_remote = !matches!(self.source, Named::Path(_));
        let is_http = matches!(self.source, Named::Address(_));
        judge_use(self.ca.is_none() || is_remote, "--ca", "http, https and s3")?;
        judge_use(
            self.headers.is_empty() || is_http,
            "--header",
            "http and https",
        )?;
        let authorities = self.ca.map(certificates).transpose()?;
        let store = self.store;
        let object = match self.source {
            Named::Object(object) => object,
            Named::Address(url) => {
                store.judge_unused()?;
                let access = HttpAccess {
                    basic: None,
                    headers: self.headers,
                    authorities,
                };
                return Ok(SourceSpec::Http(HttpSource { url, access }));
            }
            Named::Path(path) => {
                store.judge_unused()?;
                return Ok(SourceSpec::File(path));
            }
        };
        let store = store.store(authorities);
        Ok(SourceSpec::ObjectStore(object.in_store(store)))
    }
}

impl StoreArguments {
    /// The store that is meant.
    pub(crate) fn store(self, authorities: Option<String>) -> ObjectStore {
        ObjectStore {
            endpoint: self.endpoint,
            region: self.region,
            path_style: self.path_style,
            credentials: if self.anonymous {
                ObjectStoreCredentials::Anonymous
            } else {
                ObjectStoreCredentials::DefaultChain
            },
            authorities,
        }
    }

    /// The options that are there.
    pub(crate) fn used(&self) -> impl Iterator<Item = &'static str> {
        let used = [
            (self.endpoint.is_some(), "--endpoint"),
            (self.region.is_some(), "--region"),
            (self.path_style, "--path-style"),
            (self.anonymous, "--anonymous"),
        ];
        used.into_iter()
            .filter_map(|(used, option)| used.then_some(option))
    }

    fn judge_unused(&self) -> Result<(), SourceUsage> {
        self.used()
            .try_for_each(|option| judge_use(false, option, "s3://"))
    }
}

fn judge_use(fits: bool, option: &'static str, kind: &'static str) -> Result<(), SourceUsage> {
    if fits {
        Ok(())
    } else {
        Err(SourceUsage::Misplaced { option, kind })
    }
}

pub(crate) fn certificates(path: PathBuf) -> Result<String, SourceUsage> {
    std::fs::read_to_string(&path)
        .map_err(|error| SourceUsage::Certificates(path.display().to_string(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Option<(String, String)> {
        match Named::parse(text) {
            Ok(Named::Object(ObjectName { bucket, key })) => Some((bucket, key)),
            _ => None,
        }
    }

    #[test]
    fn sources_are_told_apart() {
        assert!(matches!(
            Named::parse("https://a.example/x"),
            Ok(Named::Address(_))
        ));
        assert!(matches!(
            Named::parse("some/path.qcow2"),
            Ok(Named::Path(_))
        ));
        for wrong in [
            "ftp://a.example/x",
            "http://[",
            "s3://",
            "s3://a",
            "s3://a/",
            "s3:///k",
        ] {
            assert!(Named::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_are_taken_as_they_are() {
        for (text, key) in [
            ("s3://images/a/b.qcow2", "a/b.qcow2"),
            ("s3://images//a/../b%20c?d#e f", "/a/../b%20c?d#e f"),
        ] {
            assert_eq!(object(text), Some(("images".into(), key.into())), "{text}");
        }
    }
}
