//! How objects come: in one piece, or in parts that become one object when
//! all of them are there.

use std::collections::BTreeMap;
use std::time::SystemTime;

use futures::TryStreamExt;
use s3s::dto::{
    CompleteMultipartUploadInput, CompletedPart, CreateMultipartUploadInput, PutObjectInput,
    StreamingBlob, UploadPartInput,
};
use s3s::{S3Result, s3_error};

use crate::checksum::{Sum, sums};
use crate::objects::{Bucket, Object, Objects, Parts, Piece};
use crate::read::same;

/// The least that a part may have, but the last one.
const SMALLEST: u64 = 5 << 20;
/// The highest number of a part.
const HIGHEST: i32 = 10_000;

async fn received(body: Option<StreamingBlob>, length: Option<i64>) -> S3Result<Vec<u8>> {
    let mut all = Vec::with_capacity(length.unwrap_or(0).clamp(0, 1 << 30) as usize);
    if let Some(mut body) = body {
        let broken = |error| s3_error!(IncompleteBody, "{error}");
        while let Some(piece) = body.try_next().await.map_err(broken)? {
            all.extend_from_slice(&piece);
        }
    }
    match length {
        Some(length) if length != all.len() as i64 => Err(s3_error!(IncompleteBody)),
        _ => Ok(all),
    }
}

impl Objects {
    /// Whether an object may be written where there may be one.
    fn condition(&self, bucket: &Bucket, key: &str, wanted: Option<&str>) -> S3Result<()> {
        match wanted {
            None => Ok(()),
            Some(_) if !self.conditional => Err(s3_error!(NotImplemented)),
            Some("*") if !bucket.objects.contains_key(key) => Ok(()),
            Some("*") => Err(s3_error!(PreconditionFailed)),
            Some(_) => Err(s3_error!(InvalidArgument)),
        }
    }

    pub async fn put(&self, input: PutObjectInput) -> S3Result<Piece> {
        let sum = Sum::said(sums!(input));
        self.within(&input.bucket, |bucket| {
            self.condition(bucket, &input.key, input.if_none_match.as_deref())
        })?;
        let bytes = received(input.body, input.content_length).await?;
        let piece = self.keep(bytes, sum, None).await?;
        self.within(&input.bucket, |bucket| {
            self.condition(bucket, &input.key, input.if_none_match.as_deref())?;
            let object = Object::of(piece.clone(), input.metadata);
            bucket.objects.insert(input.key, object);
            Ok(())
        })?;
        Ok(piece)
    }

    pub fn begin(&self, input: CreateMultipartUploadInput) -> S3Result<String> {
        let id = self.new_id();
        self.within(&input.bucket, |bucket| {
            let parts = Parts {
                key: input.key,
                algorithm: input
                    .checksum_algorithm
                    .map(|name| name.as_str().to_owned()),
                metadata: input.metadata,
                pieces: BTreeMap::new(),
                begun: SystemTime::now(),
            };
            bucket.uploads.insert(id.clone(), parts);
            Ok(())
        })?;
        Ok(id)
    }

    pub async fn part(&self, input: UploadPartInput) -> S3Result<Piece> {
        if !(1..=HIGHEST).contains(&input.part_number) {
            return Err(s3_error!(InvalidArgument, "part numbers end at {HIGHEST}"));
        }
        let sum = Sum::said(sums!(input));
        let algorithm = self.within(&input.bucket, |bucket| {
            let parts = upload(bucket, &input.key, &input.upload_id)?;
            Ok(parts.algorithm.clone())
        })?;
        let bytes = received(input.body, input.content_length).await?;
        self.gate().await;
        let piece = self.keep(bytes, sum, algorithm).await?;
        self.within(&input.bucket, |bucket| {
            let parts = upload(bucket, &input.key, &input.upload_id)?;
            parts.pieces.insert(input.part_number, piece.clone());
            Ok(())
        })?;
        Ok(piece)
    }

    pub fn complete(&self, input: CompleteMultipartUploadInput) -> S3Result<Object> {
        let named = input.multipart_upload.and_then(|upload| upload.parts);
        let named = named.unwrap_or_default();
        self.within(&input.bucket, |bucket| {
            let parts = upload(bucket, &input.key, &input.upload_id)?.clone();
            self.condition(bucket, &input.key, input.if_none_match.as_deref())?;
            let object = parts.complete(&named)?;
            bucket.uploads.remove(&input.upload_id);
            bucket.objects.insert(input.key, object.clone());
            Ok(object)
        })
    }
}

/// The upload of this name, which has to be of this key.
pub(crate) fn upload<'a>(bucket: &'a mut Bucket, key: &str, id: &str) -> S3Result<&'a mut Parts> {
    let found = bucket.uploads.get_mut(id);
    found
        .filter(|parts| parts.key == key)
        .ok_or(s3_error!(NoSuchUpload))
}

impl Parts {
    /// The object of the parts that are named, in the order of their numbers.
    fn complete(&self, named: &[CompletedPart]) -> S3Result<Object> {
        if named.is_empty() {
            return Err(s3_error!(MalformedXML));
        }
        let numbers = named.iter().map(|part| part.part_number.unwrap_or(0));
        if !numbers.is_sorted_by(|one, next| one < next) {
            return Err(s3_error!(InvalidPartOrder));
        }
        let mut pieces = Vec::with_capacity(named.len());
        for (index, part) in named.iter().enumerate() {
            let piece = self.pieces.get(&part.part_number.unwrap_or(0));
            let said = part.e_tag.as_deref().unwrap_or_default();
            let piece = piece
                .filter(|piece| same(&piece.etag, said))
                .ok_or(s3_error!(InvalidPart))?;
            if let Some(sum) = Sum::said(sums!(part))
                && piece.sum.as_ref() != Some(&sum)
            {
                return Err(s3_error!(InvalidPart, "a part has another checksum"));
            }
            if piece.length < SMALLEST && index + 1 < named.len() {
                return Err(s3_error!(EntityTooSmall));
            }
            pieces.push(piece.clone());
        }
        let etags: String = pieces.iter().map(|piece| piece.etag.as_str()).collect();
        let etag = crate::checksum::etag(etags.as_bytes())?;
        let sum = match &self.algorithm {
            Some(algorithm) => {
                let sums: Vec<_> = pieces
                    .iter()
                    .filter_map(|piece| piece.sum.as_ref())
                    .collect();
                Some(Sum::composite(algorithm, &sums)?)
            }
            None => None,
        };
        Ok(Object {
            etag: format!("{etag}-{}", pieces.len()),
            pieces,
            sum,
            metadata: self.metadata.clone(),
            modified: SystemTime::now(),
        })
    }
}
