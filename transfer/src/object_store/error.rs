//! Why an object store does not give an object, or take one.

/// Why an object store does not give an object, or take one.
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
        "no credentials were found for the object store: give it keys, or this process an identity (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role with a web identity token), or, to read what everybody may, ask without any"
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
    /// The credentials do not suffice to write.
    #[error(
        "the credentials may not write {0}: allow them s3:PutObject, s3:AbortMultipartUpload, s3:ListMultipartUploadParts, s3:GetObject and s3:ListBucket (without the last two a store does not tell whether the object is there)"
    )]
    WriteDenied(String),
    /// Nobody may use it without credentials.
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
    /// An object is there, and is not to be replaced.
    #[error(
        "{0} exists already: choose another key, delete it, or say that it is to be overwritten"
    )]
    ObjectExists(String),
    /// An upload is not there, or no longer.
    #[error(
        "the upload of {0} is gone from the store: somebody aborted it, or the bucket's rules for incomplete uploads did; it has to start over"
    )]
    NoSuchUpload(String),
    /// A part is not what was sent.
    #[error(
        "the store does not have all parts of {location} as they were sent ({message}): they have to be sent again"
    )]
    PartRefused {
        /// The object.
        location: String,
        /// The store's words.
        message: String,
    },
    /// More parts than an object may have.
    #[error(
        "the disk has more data than an object of ten thousand parts of 256 MiB can hold: export it as raw, whose parts may be longer; or, if it was written to meanwhile, when it is not in use"
    )]
    TooManyParts,
    /// More than the store has in one object.
    #[error(
        "{0} would be larger than the store takes: export the disk compressed, or to another store"
    )]
    ObjectTooLarge(String),
    /// No room.
    #[error("{0} has no room for the object: make room, or raise the quota")]
    StoreFull(String),
    /// Nothing was taken, or answered, for too long.
    #[error("{0} took nothing for too long")]
    Stalled(String),
    /// No answer, for a reason below.
    #[error("{store} could not be asked")]
    Unanswered {
        /// The store.
        store: String,
        /// The client's words.
        #[source]
        source: BoxError,
    },
    /// An answer that cannot be.
    #[error("{store} tells of {what}, which cannot be")]
    Senseless {
        /// The store.
        store: String,
        /// What it tells of.
        what: String,
    },
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

/// What a store says of a request that got lost or damaged on its way, or met
/// another one.
const PASSING: [&str; 6] = [
    "RequestTimeout",
    "BadDigest",
    "XAmzContentSHA256Mismatch",
    "IncompleteBody",
    "OperationAborted",
    "ConditionalRequestConflict",
];

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
    /// What a store says of something that it does not know, whatever status
    /// it says it with.
    pub(super) const UNKNOWN: &str = "NotImplemented";

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
            Self::AccessDenied(_) | Self::WriteDenied(_) => "AccessDenied",
            Self::CredentialsRequired(_) => "CredentialsRequired",
            Self::UnknownAccessKey(_) => "UnknownAccessKey",
            Self::SignatureDoesNotMatch(_) => "SignatureDoesNotMatch",
            Self::ClockSkewed { .. } => "ClockSkewed",
            Self::KeysExpired(_) => "KeysExpired",
            Self::CredentialsExpired(_) => "CredentialsExpired",
            Self::InvalidToken(_) => "InvalidToken",
            Self::WrongRegion { .. } => "WrongRegion",
            Self::Archived(_) => "ObjectArchived",
            Self::ObjectExists(_) => "ObjectExists",
            Self::NoSuchUpload(_) => "NoSuchUpload",
            Self::PartRefused { .. } => "PartRefused",
            Self::TooManyParts => "TooManyParts",
            Self::ObjectTooLarge(_) => "ObjectTooLarge",
            Self::StoreFull(_) => "StoreFull",
            Self::Stalled(_) => "UploadStalled",
            Self::SlowDown(_) => "SlowDown",
            Self::Answered { .. } | Self::Unanswered { .. } | Self::Senseless { .. } => {
                "ObjectStoreError"
            }
        }
    }

    /// Whether another try may succeed without anybody changing anything. A
    /// clock is usually being set: after a start it takes a while.
    pub(crate) fn is_retryable(&self) -> bool {
        match self {
            Self::CredentialsUnavailable(_)
            | Self::ClockSkewed { .. }
            | Self::CredentialsExpired(_)
            | Self::NoSuchUpload(_)
            | Self::PartRefused { .. }
            | Self::StoreFull(_)
            | Self::Stalled(_)
            | Self::Unanswered { .. }
            | Self::Senseless { .. }
            | Self::SlowDown(_) => true,
            Self::Answered { code, .. } if code == Self::UNKNOWN => false,
            Self::Answered { code, .. } if PASSING.contains(&code.as_str()) => true,
            // A success that is none is a defect of the moment.
            Self::Answered { status, .. } => (*status >= 500 && *status != 501) || *status == 200,
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
