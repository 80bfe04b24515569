//! What a source is shown to be let in, and what it is trusted by.
//!
//! Invariant: an access lives in memory alone, for as long as the call or the
//! job that came with it. It is not serialisable, so no journal can hold it,
//! and its `Debug` shows nothing of it.

use std::fmt;

pub use hypercloud_transfer::{
    BasicCredentials, Header, ObjectStoreCredentials as Signing, Secret,
};

/// How a source is reached, beside its address.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Basic credentials for a web server.
    pub basic: Option<BasicCredentials>,
    /// Further headers for a web server.
    pub headers: Vec<Header>,
    /// How requests to an object store are signed.
    pub signing: Signing,
    /// Certificates of authorities to trust beside the public ones, as PEM.
    pub authorities: Option<String>,
}

impl Access {
    /// Whether it is what every source has without being given anything, so
    /// that nothing of it can be lost.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given_can_be_lost_and_it_is_not_shown() {
        assert!(Access::default().is_plain());
        let given = Access {
            basic: Some(BasicCredentials {
                username: "s3cret".into(),
                password: Secret::new("s3cret"),
            }),
            headers: vec![Header {
                name: "X-Token".into(),
                value: Secret::new("s3cret"),
            }],
            signing: Signing::Keys {
                access_key_id: "s3cret".into(),
                secret_access_key: Secret::new("s3cret"),
                session_token: Some(Secret::new("s3cret")),
            },
            authorities: None,
        };
        assert!(!given.is_plain());
        assert!(!format!("{given:?}").contains("s3cret"));
    }
}
