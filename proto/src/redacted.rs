//! `Debug` of the messages that carry secrets: it shows what is there and
//! nothing of it.

use std::fmt;

use crate::agent::v1::presign_object_response::Result as Presigned;
use crate::agent::v1::{AccessKeys, BasicCredentials, Header, HttpSource, PresignObjectResponse};

impl fmt::Debug for AccessKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessKeys").finish_non_exhaustive()
    }
}

impl fmt::Debug for BasicCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BasicCredentials").finish_non_exhaustive()
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The query of a URL may be a signature, and its user part a password.
impl fmt::Debug for HttpSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSource")
            .field("basic", &self.basic)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// The address lets in whoever knows it.
impl fmt::Debug for Presigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(_) => f.debug_struct("Url").finish_non_exhaustive(),
            Self::Failure(failure) => f.debug_tuple("Failure").field(failure).finish(),
        }
    }
}

impl fmt::Debug for PresignObjectResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PresignObjectResponse")
            .field("result", &self.result)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        let source = HttpSource {
            url: "http://u:s3cret@h/?sig=s3cret".into(),
            basic: Some(BasicCredentials {
                username: "s3cret".into(),
                password: "s3cret".into(),
            }),
            headers: vec![Header {
                name: "X-Token".into(),
                value: "s3cret".into(),
            }],
            authorities: None,
        };
        let keys = AccessKeys {
            access_key_id: "s3cret".into(),
            secret_access_key: "s3cret".into(),
            session_token: Some("s3cret".into()),
        };
        let signed = PresignObjectResponse {
            result: Some(Presigned::Url("http://h/?sig=s3cret".into())),
        };
        let shown = format!("{source:?} {keys:?} {signed:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("X-Token"), "{shown}");
    }
}
