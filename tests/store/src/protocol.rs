//! The operations of the protocol that the store knows.

use std::ops::Deref;
use std::sync::Arc;
use std::time::SystemTime;

use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};

use crate::checksum::Sum;
use crate::objects::{Bucket as Held, Objects};
use crate::read::quoted;
use crate::write::upload;

/// Objects or parts in one answer.
const PAGE: i32 = 1000;

type Answer<T> = S3Result<S3Response<T>>;

/// A page of what is named in order, and whether more follows.
fn page<T>(mut all: Vec<T>, limit: Option<i32>) -> (Vec<T>, bool) {
    let limit = limit.unwrap_or(PAGE).clamp(1, PAGE) as usize;
    let more = all.len() > limit;
    all.truncate(limit);
    (all, more)
}

/// The objects, also the test's.
pub(crate) struct Shared(pub Arc<Objects>);

impl Deref for Shared {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.0
    }
}

#[async_trait::async_trait]
impl S3 for Shared {
    async fn list_buckets(&self, _: S3Request<ListBucketsInput>) -> Answer<ListBucketsOutput> {
        let all = self.all();
        let buckets = all.keys().map(|name| Bucket {
            name: Some(name.clone()),
            creation_date: Some(SystemTime::UNIX_EPOCH.into()),
            ..Bucket::default()
        });
        Ok(S3Response::new(ListBucketsOutput {
            buckets: Some(buckets.collect()),
            ..ListBucketsOutput::default()
        }))
    }

    async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> Answer<CreateBucketOutput> {
        let mut all = self.all();
        let bucket = request.input.bucket;
        if all.contains_key(&bucket) {
            return Err(s3_error!(BucketAlreadyOwnedByYou));
        }
        all.insert(bucket, Held::default());
        Ok(S3Response::new(CreateBucketOutput::default()))
    }

    async fn head_bucket(&self, request: S3Request<HeadBucketInput>) -> Answer<HeadBucketOutput> {
        self.within(&request.input.bucket, |_| Ok(()))?;
        Ok(S3Response::new(HeadBucketOutput::default()))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> Answer<ListObjectsV2Output> {
        let input = request.input;
        let after = input
            .continuation_token
            .as_ref()
            .or(input.start_after.as_ref());
        let found = self.within(&input.bucket, |bucket| {
            let prefix = input.prefix.as_deref().unwrap_or_default();
            let objects = bucket.objects.iter().filter(|(key, _)| {
                key.starts_with(prefix) && after.is_none_or(|after| *key > after)
            });
            let objects = objects.map(|(key, object)| Object {
                key: Some(key.clone()),
                e_tag: Some(quoted(&object.etag)),
                last_modified: Some(object.modified.into()),
                size: Some(object.size() as i64),
                ..Object::default()
            });
            Ok(objects.collect::<Vec<_>>())
        })?;
        let (contents, more) = page(found, input.max_keys);
        let last = contents.last().and_then(|object| object.key.clone());
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: input.prefix,
            key_count: Some(contents.len() as i32),
            max_keys: Some(input.max_keys.unwrap_or(PAGE)),
            is_truncated: Some(more),
            next_continuation_token: last.filter(|_| more),
            contents: Some(contents),
            ..ListObjectsV2Output::default()
        }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> Answer<GetObjectOutput> {
        self.get(&request.input).map(S3Response::new)
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> Answer<HeadObjectOutput> {
        self.head(&request.input).map(S3Response::new)
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> Answer<DeleteObjectOutput> {
        let input = request.input;
        self.within(&input.bucket, |bucket| {
            bucket.objects.remove(&input.key);
            Ok(())
        })?;
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> Answer<PutObjectOutput> {
        let piece = self.put(request.input).await?;
        let sums = Sum::fields(piece.sum.as_ref());
        Ok(S3Response::new(PutObjectOutput {
            e_tag: Some(quoted(&piece.etag)),
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            checksum_type: sums.checksum_type,
            ..PutObjectOutput::default()
        }))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> Answer<CreateMultipartUploadOutput> {
        let input = request.input;
        let (bucket, key) = (input.bucket.clone(), input.key.clone());
        let checksum_algorithm = input.checksum_algorithm.clone();
        let kind = ChecksumType::from_static(ChecksumType::COMPOSITE);
        let checksum_type = checksum_algorithm.as_ref().map(|_| kind);
        if let Some(asked) = &input.checksum_type
            && asked.as_str() != ChecksumType::COMPOSITE
        {
            return Err(s3_error!(NotImplemented, "only checksums of checksums"));
        }
        let upload_id = self.begin(input)?;
        Ok(S3Response::new(CreateMultipartUploadOutput {
            bucket: Some(bucket),
            key: Some(key),
            upload_id: Some(upload_id),
            checksum_algorithm,
            checksum_type,
            ..CreateMultipartUploadOutput::default()
        }))
    }

    async fn upload_part(&self, request: S3Request<UploadPartInput>) -> Answer<UploadPartOutput> {
        let piece = self.part(request.input).await?;
        let sums = Sum::fields(piece.sum.as_ref());
        Ok(S3Response::new(UploadPartOutput {
            e_tag: Some(quoted(&piece.etag)),
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            ..UploadPartOutput::default()
        }))
    }

    async fn list_parts(&self, request: S3Request<ListPartsInput>) -> Answer<ListPartsOutput> {
        let input = request.input;
        let marker = input.part_number_marker.as_deref();
        let after: i32 = marker.and_then(|text| text.parse().ok()).unwrap_or(0);
        let (found, algorithm) = self.within(&input.bucket, |bucket| {
            let parts = upload(bucket, &input.key, &input.upload_id)?;
            let pieces = parts.pieces.range(after + 1..);
            let found = pieces.map(|(number, piece)| {
                let sums = Sum::fields(piece.sum.as_ref());
                Part {
                    part_number: Some(*number),
                    size: Some(piece.length as i64),
                    e_tag: Some(quoted(&piece.etag)),
                    checksum_crc32: sums.checksum_crc32,
                    checksum_crc32c: sums.checksum_crc32c,
                    checksum_crc64nvme: sums.checksum_crc64nvme,
                    checksum_sha1: sums.checksum_sha1,
                    checksum_sha256: sums.checksum_sha256,
                    ..Part::default()
                }
            });
            Ok((found.collect::<Vec<_>>(), parts.algorithm.clone()))
        })?;
        let (parts, more) = page(found, input.max_parts);
        let last = parts.last().and_then(|part| part.part_number);
        Ok(S3Response::new(ListPartsOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(input.upload_id),
            checksum_algorithm: algorithm.map(ChecksumAlgorithm::from),
            is_truncated: Some(more),
            max_parts: Some(input.max_parts.unwrap_or(PAGE)),
            next_part_number_marker: last.map(|number| number.to_string()),
            part_number_marker: input.part_number_marker,
            parts: Some(parts),
            ..ListPartsOutput::default()
        }))
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> Answer<CompleteMultipartUploadOutput> {
        let input = request.input;
        let (bucket, key) = (input.bucket.clone(), input.key.clone());
        let object = self.complete(input)?;
        let sums = Sum::fields(object.sum.as_ref());
        Ok(S3Response::new(CompleteMultipartUploadOutput {
            bucket: Some(bucket),
            key: Some(key),
            e_tag: Some(quoted(&object.etag)),
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            checksum_type: sums.checksum_type,
            ..CompleteMultipartUploadOutput::default()
        }))
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> Answer<AbortMultipartUploadOutput> {
        let input = request.input;
        self.within(&input.bucket, |bucket| {
            upload(bucket, &input.key, &input.upload_id)?;
            bucket.uploads.remove(&input.upload_id);
            Ok(())
        })?;
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }

    async fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> Answer<ListMultipartUploadsOutput> {
        let input = request.input;
        let uploads = self.within(&input.bucket, |bucket| {
            let prefix = input.prefix.as_deref().unwrap_or_default();
            let uploads = bucket.uploads.iter();
            let uploads = uploads.filter(|(_, parts)| parts.key.starts_with(prefix));
            let uploads = uploads.map(|(id, parts)| MultipartUpload {
                key: Some(parts.key.clone()),
                upload_id: Some(id.clone()),
                initiated: Some(parts.begun.into()),
                ..MultipartUpload::default()
            });
            Ok(uploads.collect())
        })?;
        Ok(S3Response::new(ListMultipartUploadsOutput {
            bucket: Some(input.bucket),
            prefix: input.prefix,
            is_truncated: Some(false),
            uploads: Some(uploads),
            ..ListMultipartUploadsOutput::default()
        }))
    }
}
