//! Why an object store does not give an object.

/// Why an object store does not give an object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectStoreError {
    /// The endpoint is no address of a store.
    #[error(
        "{0} is no address of an object store: it must be http or https, with neither user, query nor fragment"
    )]
    InvalidEndpoint(String),
    /// The bucket's name is none.
    #[error("{0:?} is no name of a bucket")]
    InvalidBucketName(String),
    /// The key is empty, or one that no address can have.
    #[error("{0:?} is no key of an object that can be asked for: rename the object")]
    InvalidKey(String),
    /// The SDK found no address for the bucket.
    #[error(
        "the bucket {bucket} has no address in the region {region}: correct the region or the endpoint"
    )]
    NoAddress {
        /// The bucket.
        bucket: String,
        /// The region.
        region: String,
        /// The SDK's words.
        #[source]
        source: BoxError,
    },
    /// There are no credentials.
    #[error(
        "no credentials were found for the object store: give it keys, or this process an identity (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role with a web identity token), or ask without any if everybody may read"
    )]
    NoCredentials,
    /// The credentials that the environment names are not usable.
    #[error(
        "the credentials for the object store are set up wrongly: correct this process's environment"
    )]
    InvalidCredentials(#[source] BoxError),
    /// Whoever gives out credentials said no.
    #[error(
        "credentials for the object store are refused: correct the role, whom it trusts, or the token"
    )]
    CredentialsRefused(#[source] BoxError),
    /// Whoever gives out credentials said nothing, or not now.
    #[error("credentials for the object store could not be had")]
    CredentialsUnavailable(#[source] BoxError),
    /// There is no such bucket.
    #[error("{store} has no bucket {bucket}: correct the bucket's name or the endpoint")]
    NoSuchBucket {
        /// The store.
        store: String,
        /// The bucket.
        bucket: String,
    },
    /// There is no such object.
    #[error("the bucket {bucket} has no object {key}: correct the key")]
    NoSuchKey {
        /// The bucket.
        bucket: String,
        /// The key.
        key: String,
    },
    /// The credentials do not suffice.
    #[error(
        "the credentials may not read {0}: allow them s3:GetObject (and s3:ListBucket, without which a store does not tell a missing object from a forbidden one)"
    )]
    AccessDenied(String),
    /// Nobody may read it without credentials.
    #[error("{0} is not for everybody: give credentials")]
    CredentialsRequired(String),
    /// The store does not know the access key.
    #[error("{0} does not know the access key: correct it, or the endpoint")]
    UnknownAccessKey(String),
    /// The signature is wrong.
    #[error(
        "{0} does not accept the signature: the secret key does not belong to the access key, or something on the way changes the requests"
    )]
    SignatureDoesNotMatch(String),
    /// The clocks differ.
    #[error("the clock of this machine and that of {store} differ{}: set them", by(*seconds))]
    ClockSkewed {
        /// The store.
        store: String,
        /// By how much, where the store told its time; positive where this
        /// machine is ahead.
        seconds: Option<i64>,
    },
    /// The temporary keys that were given are over.
    #[error("the temporary keys for {0} have expired: give new ones")]
    KeysExpired(String),
    /// Temporary credentials of the environment are over; new ones are asked
    /// for.
    #[error("the temporary credentials for {0} have expired")]
    CredentialsExpired(String),
    /// The session token is none.
    #[error(
        "{0} does not accept the session token: correct it, or leave it out for keys that last"
    )]
    InvalidToken(String),
    /// The bucket is in another region.
    #[error("the bucket {bucket} is not in the region {asked}: {}", correction(found.as_deref()))]
    WrongRegion {
        /// The bucket.
        bucket: String,
        /// The region that was asked.
        asked: String,
        /// Where it is, where the store says so.
        found: Option<String>,
    },
    /// The object is in an archive.
    #[error("{0} is archived: restore it first")]
    Archived(String),
    /// Too many requests.
    #[error("{0} asks for fewer requests")]
    SlowDown(String),
    /// Anything else that the store said.
    #[error("{store} answered with status {status}, {code}: {message}")]
    Answered {
        /// The store.
        store: String,
        /// The status.
        status: u16,
        /// The store's word for it.
        code: String,
        /// The store's sentence.
        message: String,
    },
}

/// What a layer below says.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn by(seconds: Option<i64>) -> String {
    match seconds {
        None => String::new(),
        Some(ahead) if ahead > 0 => format!(" (this one is {ahead} s ahead)"),
        Some(behind) => format!(" (this one is {} s behind)", behind.unsigned_abs()),
    }
}

fn correction(found: Option<&str>) -> String {
    match found {
        Some(region) => format!("it is in {region}, name that"),
        None => "name the right one".to_owned(),
    }
}

impl ObjectStoreError {
    /// A stable CamelCase name for conditions, Events and scripts.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::InvalidEndpoint(_) => "InvalidEndpoint",
            Self::InvalidBucketName(_) => "InvalidBucketName",
            Self::InvalidKey(_) => "InvalidKey",
            Self::NoAddress { .. } => "NoBucketAddress",
            Self::NoCredentials => "NoCredentials",
            Self::InvalidCredentials(_) => "InvalidCredentials",
            Self::CredentialsRefused(_) => "CredentialsRefused",
            Self::CredentialsUnavailable(_) => "CredentialsUnavailable",
            Self::NoSuchBucket { .. } => "NoSuchBucket",
            Self::NoSuchKey { .. } => "NoSuchKey",
            Self::AccessDenied(_) => "AccessDenied",
            Self::CredentialsRequired(_) => "CredentialsRequired",
            Self::UnknownAccessKey(_) => "UnknownAccessKey",
            Self::SignatureDoesNotMatch(_) => "SignatureDoesNotMatch",
            Self::ClockSkewed { .. } => "ClockSkewed",
            Self::KeysExpired(_) => "KeysExpired",
            Self::CredentialsExpired(_) => "CredentialsExpired",
            Self::InvalidToken(_) => "InvalidToken",
            Self::WrongRegion { .. } => "WrongRegion",
            Self::Archived(_) => "ObjectArchived",
            Self::SlowDown(_) => "SlowDown",
            Self::Answered { .. } => "ObjectStoreError",
        }
    }

    /// Whether another try may succeed without anybody changing anything. A
    /// clock is usually being set: after a start it takes a while.
    pub(crate) fn is_retryable(&self) -> bool {
        match self {
            Self::CredentialsUnavailable(_)
            | Self::ClockSkewed { .. }
            | Self::CredentialsExpired(_)
            | Self::SlowDown(_) => true,
            // A success that is none is a defect of the moment.
            Self::Answered { status, .. } => *status >= 500 || *status == 200,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let skewed = |seconds| ObjectStoreError::ClockSkewed {
            store: "http://store".into(),
            seconds,
        };
        for (error, words) in [
            (skewed(Some(900)), "this one is 900 s ahead"),
            (skewed(Some(-7)), "this one is 7 s behind"),
            (skewed(None), "differ: set them"),
            (
                ObjectStoreError::WrongRegion {
                    bucket: "images".into(),
                    asked: "us-east-1".into(),
                    found: Some("eu-west-3".into()),
                },
                "it is in eu-west-3, name that",
            ),
        ] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
