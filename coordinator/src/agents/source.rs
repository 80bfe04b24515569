//! A source, or an object, as an agent is asked for it: where it is, and how it
//! is reached.
//!
//! Invariant: this is the only form in which the coordinator holds what lets
//! in there. It is made for one call, kept by nobody, and its `Debug`
//! shows nothing of it.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

/// Where a source is, and how it is reached.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it is.
    pub place: Place,
    /// Certificates of authorities to trust beside the public ones, as PEM.
    pub authorities: Option<String>,
}

/// Where a source is, with what lets in there.
#[derive(Clone, Debug)]
pub enum Place {
    /// At a web server.
    Http {
        /// Its address.
        url: SourceUrl,
        /// User and password.
        basic: Option<Basic>,
        /// Further headers, by name.
        headers: Vec<(String, SecretString)>,
    },
    /// In an object store.
    Object {
        /// Where in it.
        object: ObjectPlace,
        /// How requests are signed.
        signing: Signing,
    },
}

/// An object in an object store, with what lets in there.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Where it is.
    pub place: ObjectPlace,
    /// How requests are signed.
    pub signing: Signing,
    /// Certificates of authorities to trust beside the public ones, as PEM.
    pub authorities: Option<String>,
}

impl From<Stored> for Source {
    fn from(stored: Stored) -> Self {
        Self {
            place: Place::Object {
                object: stored.place,
                signing: stored.signing,
            },
            authorities: stored.authorities,
        }
    }
}

/// An address that lets in whoever knows it. It is not shown.
#[derive(Clone, Debug)]
pub struct SignedAddress(SecretString);

impl SignedAddress {
    /// An address as an agent signed it.
    pub fn new(text: String) -> Self {
        Self(text.into())
    }

    /// The whole address, for the Secret that it belongs in.
    pub fn reveal(&self) -> &str {
        self.0.expose_secret()
    }
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPlace {
    /// Name of the bucket.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Address of the store; Amazon's for the region without one.
    pub endpoint: Option<String>,
    /// Region that requests are signed for.
    pub region: Option<String>,
    /// Whether the bucket stands in the path rather than in the host's name.
    pub path_style: bool,
}

/// User and password.
#[derive(Clone, Debug)]
pub struct Basic {
    /// The user's name.
    pub username: SecretString,
    /// The password.
    pub password: SecretString,
}

/// How requests to an object store are signed.
#[derive(Clone, Debug)]
pub enum Signing {
    /// With these keys.
    Keys {
        /// The key's id.
        id: SecretString,
        /// The key.
        key: SecretString,
        /// Of temporary keys.
        token: Option<SecretString>,
    },
    /// As the agent's environment says.
    DefaultChain,
    /// Not at all.
    Anonymous,
}

/// The address of a source, whose query and user part are not shown: a signed
/// URL lets in.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceUrl(String);

impl SourceUrl {
    /// An address as it stands in a resource.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The whole address, for the request it belongs in.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match url::Url::parse(&self.0) {
            Ok(url) => {
                let origin = url.origin().ascii_serialization();
                let rest = if url.query().is_some() { "?..." } else { "" };
                write!(f, "SourceUrl({origin}{}{rest})", url.path())
            }
            Err(_) => f.write_str("SourceUrl(..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_lets_in_is_shown() {
        let secret = || SecretString::from("s3cret");
        let web = Source {
            place: Place::Http {
                url: SourceUrl::new("http://s3cret:s3cret@h/i.qcow2?sig=s3cret"),
                basic: Some(Basic {
                    username: secret(),
                    password: secret(),
                }),
                headers: vec![("X-Token".into(), secret())],
            },
            authorities: None,
        };
        let keys = Signing::Keys {
            id: secret(),
            key: secret(),
            token: Some(secret()),
        };
        let shown = format!("{web:?} {keys:?} {:?}", SourceUrl::new("s3cret"));
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("http://h/i.qcow2?..."), "{shown}");
    }
}
