//! Addresses of one object, signed anew for every request.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::Client;
use aws_sdk_s3::presigning::PresigningConfig;
use url::Url;

use super::answer::{Answer, Asked, By, To};
use super::{ObjectStoreError, address, answer, client, credentials};
use crate::error::SourceError;
use crate::options::Options;
use crate::request::{ObjectStoreCredentials, StoredObject};
use crate::source::{Refusal, Sign, cause, shown};

/// How long a signature lasts: as long as stores bear with clocks that
/// differ. A request begins at once, and may last longer.
const VALIDITY: Duration = Duration::from_secs(15 * 60);

/// Signs requests for one object.
pub(crate) struct Signer {
    client: Client,
    asked: Asked,
}

impl Signer {
    /// Sets up signing for an object that is read. Nothing is asked of the
    /// store yet.
    pub(crate) async fn new(source: &StoredObject, options: &Options) -> Result<Self, SourceError> {
        Self::to(To::Read, source, options).await
    }

    /// The same for one that is written.
    pub(super) async fn writing(
        target: &StoredObject,
        options: &Options,
    ) -> Result<Self, SourceError> {
        Self::to(To::Write, target, options).await
    }

    async fn to(to: To, source: &StoredObject, options: &Options) -> Result<Self, SourceError> {
        address::judge_bucket(&source.bucket)?;
        address::judge_key(&source.key)?;
        let client::Connected { client, region } = client::connect(&source.store, options).await?;
        let by = match source.store.credentials {
            ObjectStoreCredentials::DefaultChain => By::Environment,
            ObjectStoreCredentials::Keys { .. } => By::Keys,
            ObjectStoreCredentials::Anonymous => By::Anybody,
        };
        let endpoint = source.store.endpoint.as_ref().map(shown);
        let store = endpoint.unwrap_or_else(|| format!("the object store in {region}"));
        Ok(Self {
            client,
            asked: Asked {
                store: store.trim_end_matches('/').to_owned(),
                bucket: source.bucket.clone(),
                key: source.key.clone(),
                region,
                by,
                to,
            },
        })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// An address that lets whoever has it read the object for so long.
    pub(crate) async fn sign_for(&self, valid: Duration) -> Result<Url, SourceError> {
        let expiry = PresigningConfig::expires_in(valid)
            .map_err(|error| SourceError::Client(error.into()))?;
        let signed = self
            .client
            .get_object()
            .bucket(&self.asked.bucket)
            .key(&self.asked.key)
            .presigned(expiry)
            .await
            .map_err(|error| match cause::<CredentialsError>(&error) {
                Some(error) => credentials::explain(error),
                None => self.no_address(error),
            })?;
        let mut url = address::url(signed.uri(), &self.asked.key)
            .ok_or_else(|| self.no_address("it is no URL"))?;
        if self.asked.by == By::Anybody {
            url.set_query(None);
        }
        Ok(url)
    }

    /// Judges the first bytes of what came: some stores call a refusal a
    /// success.
    pub(crate) fn judge_head(&self, head: &[u8]) -> Result<(), SourceError> {
        let answer = Answer {
            status: 200,
            region: None,
            date: None,
            body: head,
        };
        match answer::explain(&self.asked, answer, SystemTime::now()) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn no_address(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> ObjectStoreError {
        ObjectStoreError::NoAddress {
            bucket: self.asked.bucket.clone(),
            region: self.asked.region.clone(),
            source: source.into(),
        }
    }
}

#[async_trait]
impl Sign for Signer {
    async fn sign(&self) -> Result<Url, SourceError> {
        self.sign_for(VALIDITY).await
    }

    fn location(&self) -> String {
        self.asked.location()
    }

    fn explain(&self, refusal: Refusal<'_>) -> Option<SourceError> {
        let header = |name: &str| refusal.headers.get(name)?.to_str().ok();
        let answer = Answer {
            status: refusal.status.as_u16(),
            region: header("x-amz-bucket-region"),
            date: header("date"),
            body: refusal.body,
        };
        answer::explain(&self.asked, answer, SystemTime::now()).map(SourceError::from)
    }
}
