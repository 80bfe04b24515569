//! What an error of the SDK means, when an object is written.

use std::time::SystemTime;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ConnectorError, SdkError};

use super::answer::{self, Answer, Asked};
use super::{ObjectStoreError, credentials};
use crate::error::SourceError;
use crate::source::address::Refused;
use crate::source::cause;

/// Whether the store does not know what was asked for.
pub(super) fn is_unknown(error: &SourceError) -> bool {
    match error {
        SourceError::ObjectStore(ObjectStoreError::Answered { status, code, .. }) => {
            *status == 501 || code == ObjectStoreError::UNKNOWN
        }
        SourceError::ServerError { status, .. } => *status == 501,
        _ => false,
    }
}

/// Whether the store refuses a header, as old ones refuse those of checksums.
pub(super) fn is_unheard(error: &SourceError) -> bool {
    matches!(
        error,
        SourceError::ObjectStore(ObjectStoreError::Answered { status: 400 | 501, code, .. })
            if matches!(code.as_str(), "InvalidRequest" | "InvalidArgument" | "NotImplemented")
    )
}

/// Whether there is no such upload, or no such object.
pub(super) fn is_gone(error: &SourceError) -> bool {
    matches!(
        error,
        SourceError::ObjectStore(ObjectStoreError::NoSuchUpload(_)) | SourceError::NotFound(_)
    )
}

/// Whether a part is not what was sent.
pub(super) fn is_refused(error: &SourceError) -> bool {
    matches!(
        error,
        SourceError::ObjectStore(ObjectStoreError::PartRefused { .. })
    )
}

/// What an error of the SDK means.
pub(super) fn explain<E>(asked: &Asked, error: SdkError<E, HttpResponse>) -> SourceError
where
    E: std::error::Error + Send + Sync + 'static,
{
    if let Some(response) = error.raw_response() {
        let header = |name: &str| response.headers().get(name);
        let status = response.status().as_u16();
        let answer = Answer {
            status,
            region: header("x-amz-bucket-region"),
            date: header("date"),
            body: response.body().bytes().unwrap_or_default(),
        };
        return match answer::explain(asked, answer, SystemTime::now()) {
            Some(error) => error.into(),
            None => by_status(asked, status),
        };
    }
    if let Some(error) = cause::<CredentialsError>(&error) {
        return credentials::explain(error).into();
    }
    let location = asked.store.clone();
    if let Some(refused) = cause::<Refused>(&error) {
        let address = refused.address();
        return SourceError::AddressRefused { location, address };
    }
    let timed_out = matches!(&error, SdkError::TimeoutError(_))
        || matches!(&error, SdkError::DispatchFailure(failure) if failure.is_timeout());
    let source = match error.into_source() {
        Ok(source) => source,
        Err(error) => error.into(),
    };
    // The connector says it in this crate's words.
    let source = match source.downcast::<ConnectorError>() {
        Ok(failure) => failure.into_source(),
        Err(source) => source,
    };
    match source.downcast::<SourceError>() {
        Ok(error) => *error,
        Err(_) if timed_out => ObjectStoreError::Stalled(location).into(),
        Err(source) => ObjectStoreError::Unanswered {
            store: location,
            source,
        }
        .into(),
    }
}

/// What an answer means that says nothing but its status.
fn by_status(asked: &Asked, status: u16) -> SourceError {
    let location = asked.store.clone();
    match status {
        403 => asked.denied().into(),
        404 => SourceError::NotFound(asked.location()),
        412 => ObjectStoreError::ObjectExists(asked.location()).into(),
        429 => SourceError::TooManyRequests(location),
        500.. => SourceError::ServerError { location, status },
        _ => SourceError::UnexpectedStatus { location, status },
    }
}
