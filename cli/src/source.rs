//! From the words of the command line to a source.

use std::path::PathBuf;

use clap::Args;
use hypercloud_transfer::{
    HttpSource, ObjectStore, ObjectStoreCredentials, ObjectStoreSource, SourceSpec,
};
use url::Url;

#[derive(Debug, Args)]
pub(crate) struct SourceArguments {
    /// The image: an http or https address, s3://BUCKET/KEY with the key as
    /// it is, or a path
    #[arg(value_parser = Named::parse)]
    source: Named,
    #[command(flatten)]
    store: StoreArguments,
}

/// Where objects are, for s3:// sources.
///
/// The credentials are the environment's: `AWS_ACCESS_KEY_ID` and
/// `AWS_SECRET_ACCESS_KEY`, a profile, a web identity token, or the machine's
/// role.
#[derive(Debug, Args)]
#[command(next_help_heading = "Object stores (s3://)")]
struct StoreArguments {
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

/// An option that the source has no use for.
#[derive(Debug, thiserror::Error)]
#[error("{0} is for s3:// sources only")]
pub(crate) struct Misplaced(&'static str);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    Address(Url),
    Object { bucket: String, key: String },
    Path(PathBuf),
}

impl Named {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once("://") {
            Some(("http" | "https", _)) => Url::parse(text)
                .map(Self::Address)
                .map_err(|error| error.to_string()),
            // A key is anything, so this is no URL.
            Some(("s3", name)) => match name.split_once('/') {
                Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => Ok(Self::Object {
                    bucket: bucket.to_owned(),
                    key: key.to_owned(),
                }),
                _ => Err("an object is written s3://BUCKET/KEY".to_owned()),
            },
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
    /// [`Misplaced`] when there is an option that it has no use for.
    pub(crate) fn spec(self) -> Result<SourceSpec, Misplaced> {
        let store = self.store;
        let (bucket, key) = match self.source {
            Named::Object { bucket, key } => (bucket, key),
            Named::Address(url) => {
                store.judge_unused()?;
                return Ok(SourceSpec::Http(HttpSource::open(url)));
            }
            Named::Path(path) => {
                store.judge_unused()?;
                return Ok(SourceSpec::File(path));
            }
        };
        Ok(SourceSpec::ObjectStore(ObjectStoreSource {
            bucket,
            key,
            store: ObjectStore {
                endpoint: store.endpoint,
                region: store.region,
                path_style: store.path_style,
                credentials: if store.anonymous {
                    ObjectStoreCredentials::Anonymous
                } else {
                    ObjectStoreCredentials::DefaultChain
                },
                authorities: None,
            },
        }))
    }
}

impl StoreArguments {
    fn judge_unused(&self) -> Result<(), Misplaced> {
        let used = [
            (self.endpoint.is_some(), "--endpoint"),
            (self.region.is_some(), "--region"),
            (self.path_style, "--path-style"),
            (self.anonymous, "--anonymous"),
        ];
        match used.into_iter().find(|(used, _)| *used) {
            Some((_, name)) => Err(Misplaced(name)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Option<(String, String)> {
        match Named::parse(text) {
            Ok(Named::Object { bucket, key }) => Some((bucket, key)),
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
