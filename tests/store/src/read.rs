//! How objects are read: what an answer says of them, and their bytes.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use futures::Stream;
use s3s::dto::{GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput, StreamingBlob};
use s3s::{S3Result, s3_error};

use crate::checksum::Sum;
use crate::objects::{Object, Objects};

/// The same ETag, with or without quotes.
pub(crate) fn same(one: &str, other: &str) -> bool {
    one.trim_matches('"') == other.trim_matches('"')
}

/// An ETag as it stands in a header.
pub(crate) fn quoted(etag: &str) -> String {
    format!("\"{}\"", etag.trim_matches('"'))
}

impl Objects {
    fn find(&self, bucket: &str, key: &str, wanted: Option<&str>) -> S3Result<Object> {
        let found = self.within(bucket, |bucket| {
            let object = bucket.objects.get(key).cloned();
            object.ok_or(s3_error!(NoSuchKey))
        })?;
        match wanted {
            Some(etag) if etag != "*" && !same(etag, &found.etag) => {
                Err(s3_error!(PreconditionFailed))
            }
            _ => Ok(found),
        }
    }

    pub fn get(&self, input: &GetObjectInput) -> S3Result<GetObjectOutput> {
        let object = self.find(&input.bucket, &input.key, input.if_match.as_deref())?;
        let size = object.size();
        let (range, content_range) = match input.range {
            None => (0..size, None),
            Some(range) => {
                let range = range.check(size)?;
                let words = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                (range, Some(words))
            }
        };
        let whole = content_range.is_none();
        let sums = Sum::fields(object.sum.as_ref().filter(|_| whole));
        Ok(GetObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some((range.end - range.start) as i64),
            content_range,
            e_tag: Some(quoted(&object.etag)),
            last_modified: Some(object.modified.into()),
            metadata: object.metadata.clone(),
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            checksum_type: sums.checksum_type,
            body: Some(StreamingBlob::wrap(bytes(object, range))),
            ..GetObjectOutput::default()
        })
    }

    pub fn head(&self, input: &HeadObjectInput) -> S3Result<HeadObjectOutput> {
        let object = self.find(&input.bucket, &input.key, input.if_match.as_deref())?;
        let sums = Sum::fields(object.sum.as_ref());
        Ok(HeadObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some(object.size() as i64),
            e_tag: Some(quoted(&object.etag)),
            last_modified: Some(object.modified.into()),
            metadata: object.metadata,
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            checksum_type: sums.checksum_type,
            ..HeadObjectOutput::default()
        })
    }
}

/// A stretch of an object, piece by piece.
fn bytes(
    object: Object,
    range: Range<u64>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + Sync + 'static {
    futures::stream::try_unfold((object, range), |(object, range)| async move {
        if range.is_empty() {
            return Ok(None);
        }
        let reading = tokio::task::spawn_blocking(move || {
            let piece = object.read(range.start, range.end)?;
            let next = range.start + piece.len() as u64..range.end;
            Ok(Some((piece, (object, next))))
        });
        reading.await.map_err(io::Error::other)?
    })
}
