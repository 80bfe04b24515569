//! Writing one object, whole or in parts.
//!
//! The SDK makes the requests and reads the answers; they go through this
//! crate's HTTP client. What is tried again, and how often, is decided here,
//! as for sources.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::complete_multipart_upload::CompleteMultipartUploadOutput;
use aws_sdk_s3::operation::create_multipart_upload::CreateMultipartUploadOutput;
use aws_sdk_s3::operation::put_object::PutObjectOutput;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::answer::Asked;
use super::failure::{explain, is_gone, is_refused, is_unheard, is_unknown};
use super::payload::Payload;
use super::signer::Signer;
use super::told::{Begun, Found, Sent};
use super::{ObjectStoreError, address};
use crate::error::SourceError;
use crate::options::Options;
use crate::request::{ObjectStoreCredentials, StoredObject};
use crate::source::Sign;
use crate::source::retry::Retry;

/// What an object is marked with by who wrote it, to know it again.
const MARK: &str = "hypercloud-export";
/// And with whom it belongs to.
const OWNER: &str = "hypercloud-owner";
/// What is said of the content.
const CONTENT_TYPE: &str = "application/octet-stream";
/// How long a store may take to put the parts of an object together.
const COMPLETION: Duration = Duration::from_secs(10 * 60);

/// Writes one object.
pub(crate) struct Writer {
    client: Client,
    signer: Signer,
    /// Whom the object belongs to.
    owner: Option<String>,
    options: Options,
}

/// What tries lead to: a failure, as everywhere.
type Tried<T> = Result<T, SourceError>;

/// A CRC-32C, as the protocol writes it.
fn written(sum: u32) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(sum.to_be_bytes())
}

/// As it is shown: the algorithm, and what the store says.
fn named(checksum: Option<&str>) -> Option<String> {
    checksum.map(|value| format!("crc32c:{value}"))
}

impl Writer {
    /// Sets up writing an object. Nothing is asked of the store yet.
    pub(crate) async fn new(
        object: &StoredObject,
        owner: Option<String>,
        options: &Options,
    ) -> Tried<Self> {
        let signer = Signer::writing(object, options).await?;
        if object.store.credentials == ObjectStoreCredentials::Anonymous {
            let location = signer.location();
            return Err(ObjectStoreError::CredentialsRequired(location).into());
        }
        // No address has them as they are, and what is sent is signed as it is.
        if object.key.split('/').any(address::is_step) {
            return Err(ObjectStoreError::InvalidKey(object.key.clone()).into());
        }
        Ok(Self {
            client: signer.client().clone(),
            signer,
            owner,
            options: options.clone(),
        })
    }

    fn asked(&self) -> &Asked {
        self.signer.asked()
    }

    /// The object as people write it, and its store.
    pub(crate) fn name(&self) -> String {
        let asked = self.asked();
        format!("{} at {}", asked.location(), asked.store)
    }

    /// The object's address, without what lets anybody in.
    pub(crate) async fn address(&self) -> Tried<String> {
        let mut url = self.signer.sign().await?;
        url.set_query(None);
        Ok(url.into())
    }

    /// That an object is there which is not to be replaced.
    pub(crate) fn exists(&self) -> SourceError {
        ObjectStoreError::ObjectExists(self.asked().location()).into()
    }

    /// Whether an object that is there belongs to the same owner.
    pub(crate) fn owns(&self, found: &Found) -> bool {
        self.owner.is_some() && found.owner == self.owner
    }

    fn metadata(&self, mark: &str) -> HashMap<String, String> {
        let mut metadata = HashMap::from([(MARK.to_owned(), mark.to_owned())]);
        if let Some(owner) = &self.owner {
            metadata.insert(OWNER.to_owned(), owner.clone());
        }
        metadata
    }

    fn explain<E>(&self, error: SdkError<E, HttpResponse>) -> SourceError
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        explain(self.asked(), error)
    }

    /// Asks until it is answered, or has failed too often.
    async fn tries<T, E, F>(&self, ask: impl Fn() -> F) -> Tried<T>
    where
        E: std::error::Error + Send + Sync + 'static,
        F: Future<Output = Result<T, SdkError<E, HttpResponse>>>,
    {
        let mut retry = Retry::new(&self.options);
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    let error = self.explain(error);
                    // The whole upload may be tried again, and not this.
                    if is_gone(&error) || is_refused(&error) {
                        return Err(error);
                    }
                    retry.pause(error, None).await?;
                }
            }
        }
    }

    /// The object that is there, if one is.
    pub(crate) async fn find(&self) -> Tried<Option<Found>> {
        let found = self
            .tries(|| {
                self.client
                    .head_object()
                    .bucket(&self.asked().bucket)
                    .key(&self.asked().key)
                    .send()
            })
            .await;
        match found {
            Ok(found) => {
                let marked = |name| found.metadata()?.get(name).cloned();
                Ok(Some(Found {
                    etag: found.e_tag().map(str::to_owned),
                    checksum: named(found.checksum_crc32_c()),
                    size: found.content_length().and_then(|size| size.try_into().ok()),
                    mark: marked(MARK),
                    owner: marked(OWNER),
                }))
            }
            Err(SourceError::NotFound(_)) => Ok(None),
            Err(error) => Err(self.in_words(error).await),
        }
    }

    /// What a refusal means that came without a word, as those of a HEAD do:
    /// another request for the same object has them.
    async fn in_words(&self, error: SourceError) -> SourceError {
        let asked = self
            .client
            .get_object()
            .bucket(&self.asked().bucket)
            .key(&self.asked().key)
            .range("bytes=0-0")
            .send();
        match asked.await {
            Err(refusal) => match self.explain(refusal) {
                SourceError::ObjectStore(words) => words.into(),
                _ => error,
            },
            Ok(_) => error,
        }
    }

    /// Writes the object in one request; only where none is, if `only_new`.
    pub(crate) async fn put(&self, bytes: Bytes, mark: &str, only_new: bool) -> Tried<Found> {
        let size = bytes.len() as u64;
        let mut sum = Some(written(crc32c::crc32c(&bytes)));
        let mut only_new = only_new;
        loop {
            match self.put_once(&bytes, mark, sum.clone(), only_new).await {
                Ok(stored) => {
                    return Ok(Found {
                        etag: stored.e_tag().map(str::to_owned),
                        checksum: named(stored.checksum_crc32_c()),
                        size: Some(size),
                        mark: Some(mark.to_owned()),
                        owner: self.owner.clone(),
                    });
                }
                // It knows no such condition: what was asked before counts.
                Err(error) if only_new && is_unknown(&error) => only_new = false,
                Err(error) if sum.is_some() && is_unheard(&error) => sum = None,
                Err(error) => return Err(error),
            }
        }
    }

    async fn put_once(
        &self,
        bytes: &Bytes,
        mark: &str,
        checksum: Option<String>,
        only_new: bool,
    ) -> Tried<PutObjectOutput> {
        self.tries(|| {
            self.client
                .put_object()
                .bucket(&self.asked().bucket)
                .key(&self.asked().key)
                .content_type(CONTENT_TYPE)
                .set_metadata(Some(self.metadata(mark)))
                .set_checksum_crc32_c(checksum.clone())
                .set_if_none_match(only_new.then(|| "*".to_owned()))
                .body(ByteStream::from(bytes.clone()))
                .send()
        })
        .await
    }

    /// Begins an upload in parts.
    pub(crate) async fn begin(&self, mark: &str) -> Tried<Begun> {
        let begun = match self.begin_once(mark, Some(ChecksumAlgorithm::Crc32C)).await {
            Err(error) if is_unknown(&error) || is_unheard(&error) => {
                self.begin_once(mark, None).await?
            }
            begun => begun?,
        };
        let id = begun.upload_id().filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| self.senseless("an upload without an id"))?;
        Ok(Begun {
            id: id.to_owned(),
            // Others ignore what they do not know.
            checksums: begun.checksum_algorithm() == Some(&ChecksumAlgorithm::Crc32C),
        })
    }

    async fn begin_once(
        &self,
        mark: &str,
        algorithm: Option<ChecksumAlgorithm>,
    ) -> Tried<CreateMultipartUploadOutput> {
        self.tries(|| {
            self.client
                .create_multipart_upload()
                .bucket(&self.asked().bucket)
                .key(&self.asked().key)
                .content_type(CONTENT_TYPE)
                .set_metadata(Some(self.metadata(mark)))
                .set_checksum_algorithm(algorithm.clone())
                .send()
        })
        .await
    }

    fn senseless(&self, what: &str) -> SourceError {
        ObjectStoreError::Senseless {
            store: self.asked().store.clone(),
            what: what.to_owned(),
        }
        .into()
    }

    /// Sends a part; one of the same number that was sent before is replaced.
    pub(crate) async fn send(&self, upload: &Begun, number: u32, part: &Payload) -> Tried<Sent> {
        let sum = upload.checksums.then(|| written(part.sum()));
        let (trouble, mut troubled) = mpsc::unbounded_channel();
        let sending = self.tries(|| {
            self.client
                .upload_part()
                .bucket(&self.asked().bucket)
                .key(&self.asked().key)
                .upload_id(&upload.id)
                .part_number(number as i32)
                .set_checksum_crc32_c(sum.clone())
                .body(part.body(&trouble))
                .send()
        });
        let sent = tokio::select! {
            biased;
            // No fault of the store's.
            Some(error) = troubled.recv() => return Err(error),
            sent = sending => sent?,
        };
        let etag = sent
            .e_tag()
            .ok_or_else(|| self.senseless("a part without an ETag"))?;
        Ok(Sent {
            number,
            size: part.length(),
            etag: etag.to_owned(),
            checksum: sum,
        })
    }

    /// The parts that an upload has, in order; `None` where there is no such
    /// upload.
    pub(crate) async fn parts(&self, upload: &str) -> Tried<Option<Vec<Sent>>> {
        let mut parts = Vec::new();
        let mut after = None;
        loop {
            let listed = self
                .tries(|| {
                    self.client
                        .list_parts()
                        .bucket(&self.asked().bucket)
                        .key(&self.asked().key)
                        .upload_id(upload)
                        .set_part_number_marker(after.clone())
                        .send()
                })
                .await;
            let listed = match listed {
                Ok(listed) => listed,
                Err(error) if is_gone(&error) => return Ok(None),
                Err(error) => return Err(error),
            };
            parts.extend(listed.parts().iter().filter_map(|part| {
                Some(Sent {
                    number: part.part_number()?.try_into().ok()?,
                    size: part.size()?.try_into().ok()?,
                    etag: part.e_tag()?.to_owned(),
                    checksum: part.checksum_crc32_c().map(str::to_owned),
                })
            }));
            let next = listed.next_part_number_marker().map(str::to_owned);
            if listed.is_truncated() != Some(true) || next.is_none() || next == after {
                return Ok(Some(parts));
            }
            after = next;
        }
    }

    /// Makes the object of its parts; only where none is, if `only_new`.
    pub(crate) async fn complete(
        &self,
        upload: &Begun,
        parts: &[Sent],
        mark: &str,
        only_new: bool,
    ) -> Tried<Found> {
        let list: Vec<CompletedPart> = parts
            .iter()
            .map(|part| {
                CompletedPart::builder()
                    .part_number(part.number as i32)
                    .e_tag(&part.etag)
                    .set_checksum_crc32_c(part.checksum.clone())
                    .build()
            })
            .collect();
        let list = CompletedMultipartUpload::builder()
            .set_parts(Some(list))
            .build();
        let done = match self.complete_once(upload, &list, only_new).await {
            Err(error) if only_new && is_unknown(&error) => {
                self.complete_once(upload, &list, false).await?
            }
            done => done?,
        };
        Ok(Found {
            etag: done.e_tag().map(str::to_owned),
            checksum: named(done.checksum_crc32_c()),
            size: Some(parts.iter().map(|part| part.size).sum()),
            mark: Some(mark.to_owned()),
            owner: self.owner.clone(),
        })
    }

    async fn complete_once(
        &self,
        upload: &Begun,
        parts: &CompletedMultipartUpload,
        only_new: bool,
    ) -> Tried<CompleteMultipartUploadOutput> {
        let patience = TimeoutConfig::builder()
            .connect_timeout(self.options.connect_timeout)
            .read_timeout(COMPLETION)
            .build();
        self.tries(|| {
            self.client
                .complete_multipart_upload()
                .bucket(&self.asked().bucket)
                .key(&self.asked().key)
                .upload_id(&upload.id)
                .multipart_upload(parts.clone())
                .set_if_none_match(only_new.then(|| "*".to_owned()))
                .customize()
                .config_override(Builder::default().timeout_config(patience.clone()))
                .send()
        })
        .await
    }

    /// Gives up an upload, with all of its parts. One that is not there is
    /// given up already.
    pub(crate) async fn abort(&self, upload: &str) -> Tried<()> {
        let mut retry = Retry::new(&self.options);
        loop {
            let aborted = self
                .tries(|| {
                    self.client
                        .abort_multipart_upload()
                        .bucket(&self.asked().bucket)
                        .key(&self.asked().key)
                        .upload_id(upload)
                        .send()
                })
                .await;
            match aborted {
                Ok(_) => {}
                Err(error) if is_gone(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
            // A part that was on its way may have come after that.
            match self.parts(upload).await {
                Ok(None) => return Ok(()),
                Ok(Some(_)) => {
                    retry
                        .pause(self.senseless("an upload that was aborted"), None)
                        .await?
                }
                // It was aborted; who may do that may not always look.
                Err(_) => return Ok(()),
            }
        }
    }

    /// Gives up uploads to this very object that have no part and were begun
    /// after `since`: those of a process that died before it could write down
    /// that it had begun one.
    pub(crate) async fn sweep(&self, since: SystemTime) -> Tried<()> {
        let key = &self.asked().key;
        let listed = self
            .tries(|| {
                self.client
                    .list_multipart_uploads()
                    .bucket(&self.asked().bucket)
                    .prefix(key)
                    .send()
            })
            .await?;
        for upload in listed.uploads() {
            let begun = upload.initiated().map(|time| SystemTime::try_from(*time));
            let is_late = matches!(begun, Some(Ok(begun)) if begun >= since);
            let Some(id) = upload.upload_id() else {
                continue;
            };
            if is_late
                && upload.key() == Some(key.as_str())
                && self.parts(id).await?.is_some_and(|parts| parts.is_empty())
            {
                self.abort(id).await?;
            }
        }
        Ok(())
    }
}
