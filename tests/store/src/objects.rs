//! What the store holds: buckets, their objects, and uploads under way. Bytes
//! are in files without a name, which go with the store.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use s3s::dto::Metadata;
use s3s::{S3Result, s3_error};
use tokio::sync::watch;

use crate::checksum::{self, Sum};

/// Bytes of one read of an object.
const STEP: u64 = 256 << 10;

/// Bytes that were sent in one request.
#[derive(Clone)]
pub(crate) struct Piece {
    file: Arc<File>,
    pub length: u64,
    pub etag: String,
    pub sum: Option<Sum>,
}

/// A complete object.
#[derive(Clone)]
pub(crate) struct Object {
    pub pieces: Vec<Piece>,
    pub etag: String,
    pub sum: Option<Sum>,
    pub metadata: Option<Metadata>,
    pub modified: SystemTime,
}

/// An upload in parts that is not complete.
#[derive(Clone)]
pub(crate) struct Parts {
    pub key: String,
    pub algorithm: Option<String>,
    pub metadata: Option<Metadata>,
    pub pieces: BTreeMap<i32, Piece>,
    pub begun: SystemTime,
}

#[derive(Default)]
pub(crate) struct Bucket {
    pub objects: BTreeMap<String, Object>,
    pub uploads: BTreeMap<String, Parts>,
}

/// Everything that is stored.
pub(crate) struct Objects {
    buckets: Mutex<HashMap<String, Bucket>>,
    pub folder: PathBuf,
    numbers: Mutex<u64>,
    /// How many parts may be stored in all, and how many were.
    allowed: watch::Sender<u64>,
    stored: Mutex<u64>,
    /// Whether `If-None-Match` is understood.
    pub conditional: bool,
}

impl Piece {
    pub fn new(folder: &Path, bytes: &[u8], sum: Option<Sum>) -> S3Result<Self> {
        let file = tempfile::tempfile_in(folder).and_then(|file| {
            file.write_all_at(bytes, 0)?;
            Ok(file)
        });
        Ok(Self {
            file: Arc::new(file.map_err(|error| s3_error!(error, InternalError))?),
            length: bytes.len() as u64,
            etag: checksum::etag(bytes)?,
            sum,
        })
    }
}

impl Object {
    /// An object of one piece.
    pub fn of(piece: Piece, metadata: Option<Metadata>) -> Self {
        Self {
            etag: piece.etag.clone(),
            sum: piece.sum.clone(),
            pieces: vec![piece],
            metadata,
            modified: SystemTime::now(),
        }
    }

    pub fn size(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.length).sum()
    }

    /// At most so many bytes as one read takes, from `offset` on and before
    /// `end`.
    pub fn read(&self, offset: u64, end: u64) -> io::Result<Bytes> {
        let mut start = 0;
        for piece in &self.pieces {
            if offset < start + piece.length {
                let within = offset - start;
                let length = STEP.min(piece.length - within).min(end - offset);
                let mut bytes = vec![0; length as usize];
                piece.file.read_exact_at(&mut bytes, within)?;
                return Ok(bytes.into());
            }
            start += piece.length;
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    /// All of its bytes.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut all = Vec::with_capacity(self.size() as usize);
        while (all.len() as u64) < self.size() {
            all.extend(self.read(all.len() as u64, self.size())?);
        }
        Ok(all)
    }
}

impl Objects {
    pub fn new(buckets: &[String], folder: PathBuf, conditional: bool) -> Self {
        let buckets = buckets.iter();
        let buckets = buckets.map(|name| (name.clone(), Bucket::default()));
        Self {
            buckets: Mutex::new(buckets.collect()),
            folder,
            numbers: Mutex::default(),
            allowed: watch::Sender::new(u64::MAX),
            stored: Mutex::default(),
            conditional,
        }
    }

    pub fn all(&self) -> MutexGuard<'_, HashMap<String, Bucket>> {
        self.buckets.lock()
    }

    /// Does something with a bucket.
    pub fn within<T>(
        &self,
        bucket: &str,
        what: impl FnOnce(&mut Bucket) -> S3Result<T>,
    ) -> S3Result<T> {
        let mut all = self.all();
        what(all.get_mut(bucket).ok_or(s3_error!(NoSuchBucket))?)
    }

    /// A name that no upload had before.
    pub fn new_id(&self) -> String {
        let mut number = self.numbers.lock();
        *number += 1;
        format!("upload-{number:08}")
    }

    /// Keeps bytes, which have to have the checksum that is said. Where none
    /// is said, one of `algorithm` is computed.
    pub async fn keep(
        &self,
        bytes: Vec<u8>,
        said: Option<Sum>,
        algorithm: Option<String>,
    ) -> S3Result<Piece> {
        let folder = self.folder.clone();
        let keeping = tokio::task::spawn_blocking(move || {
            let sum = match (said, algorithm) {
                (Some(said), _) => {
                    said.verify(&bytes)?;
                    Some(said)
                }
                (None, Some(algorithm)) => Some(Sum::of(&algorithm, &bytes)?),
                (None, None) => None,
            };
            Piece::new(&folder, &bytes, sum)
        });
        keeping
            .await
            .map_err(|error| s3_error!(error, InternalError))?
    }

    /// From now on `parts` more parts are let in, until this is called again.
    pub fn allow(&self, parts: u64) {
        let stored = *self.stored.lock();
        self.allowed.send_replace(stored.saturating_add(parts));
    }

    pub fn stored(&self) -> u64 {
        *self.stored.lock()
    }

    /// Waits until a part may be stored.
    pub async fn gate(&self) {
        let mut allowed = self.allowed.subscribe();
        loop {
            let limit = *allowed.borrow_and_update();
            {
                let mut stored = self.stored.lock();
                if *stored < limit {
                    *stored += 1;
                    return;
                }
            }
            if allowed.changed().await.is_err() {
                return;
            }
        }
    }
}
