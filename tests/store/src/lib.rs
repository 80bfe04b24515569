//! An S3 server for tests. The protocol, its signatures and its errors are
//! those of a real implementation; the store behind it keeps objects in files
//! without a name, is as strict as the protocol where clients go wrong, and
//! can be told to misbehave.
//!
//! It runs on threads of its own, so that a test that blocks does not stop it.

mod checksum;
mod objects;
mod protocol;
mod read;
mod server;
mod write;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use hyper::http::request::Parts;
pub use s3s::Body;

use crate::objects::{Object, Objects, Piece};
use crate::server::Inner;

/// The only keys that the server knows, where a test says no others.
pub const KEYS: (&str, &str) = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");

/// The bucket that is there, where a test says no others.
pub const BUCKET: &str = "images";

/// Answers in the server's place, or does not; told how many requests came
/// before.
pub type Twist = dyn Fn(&Parts, usize) -> Option<Response<Body>> + Send + Sync;

/// What the server is to be like.
pub struct Setup {
    /// Address to listen on.
    pub address: IpAddr,
    /// Port to listen on; a free one where it is 0.
    pub port: u16,
    /// Access key and secret key.
    pub keys: (String, String),
    /// The buckets that are there. The functions of the store that name none
    /// are about the first.
    pub buckets: Vec<String>,
    /// Objects of the first bucket by their keys.
    pub objects: HashMap<String, Bytes>,
    /// Folder on whose file system the bytes are.
    pub folder: PathBuf,
    /// Whether everybody may do everything.
    pub public: bool,
    /// Whether objects can be written on the condition that there is none.
    pub conditional: bool,
    /// TLS is spoken where it is set.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Called for every request.
    pub twist: Option<Box<Twist>>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            keys: (KEYS.0.to_owned(), KEYS.1.to_owned()),
            buckets: vec![BUCKET.to_owned()],
            objects: HashMap::new(),
            folder: std::env::temp_dir(),
            public: false,
            conditional: true,
            tls: None,
            twist: None,
        }
    }
}

impl Setup {
    /// A server with an object.
    pub fn with(key: &str, bytes: &[u8]) -> Self {
        Self {
            objects: HashMap::from([(key.to_owned(), Bytes::copy_from_slice(bytes))]),
            ..Self::default()
        }
    }

    /// Sets who answers in the server's place.
    pub fn twisted(
        mut self,
        twist: impl Fn(&Parts, usize) -> Option<Response<Body>> + Send + Sync + 'static,
    ) -> Self {
        self.twist = Some(Box::new(twist));
        self
    }
}

/// A refusal in the protocol's own words.
pub fn refusal(status: u16, code: &str, rest: &str) -> Response<Body> {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>{rest}</Error>"
    );
    Response::builder()
        .status(status)
        .header("Content-Type", "application/xml")
        .header("Content-Length", body.len())
        .body(Body::from(body.into_bytes()))
        .unwrap_or_default()
}

/// An upload that was begun, and neither completed nor aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Key of the object that it is to become.
    pub key: String,
    /// Its identity.
    pub id: String,
    /// Numbers and sizes of the parts that are stored.
    pub parts: Vec<(i32, u64)>,
}

/// A server, for as long as this lives.
pub struct Store {
    /// Where it listens.
    pub address: SocketAddr,
    bucket: String,
    objects: Arc<Objects>,
    inner: Arc<Inner>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Store {
    /// Starts a server.
    pub async fn start(setup: Setup) -> io::Result<Self> {
        let objects = Objects::new(&setup.buckets, setup.folder.clone(), setup.conditional);
        let bucket = setup.buckets.first().cloned().unwrap_or_default();
        let objects = Arc::new(objects);
        for (key, bytes) in &setup.objects {
            put(&objects, &bucket, key, bytes)?;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("test-store")
            .enable_all()
            .build()?;
        let listener = std::net::TcpListener::bind((setup.address, setup.port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let inner = Arc::new(Inner::new(&setup, Arc::clone(&objects), address));
        let twisted = Arc::clone(&inner);
        let listener = {
            let _within = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        runtime.spawn(twisted.listen(listener, setup.tls, setup.twist));
        Ok(Self {
            address,
            bucket,
            objects,
            inner,
            runtime: Some(runtime),
        })
    }

    /// The server's address as a client is told it.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked: each request's host and target.
    pub fn seen(&self) -> Vec<String> {
        self.inner.seen()
    }

    /// The same with each request's method before it.
    pub fn requests(&self) -> Vec<String> {
        self.inner.requests()
    }

    /// Puts an object into the first bucket.
    pub fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        put(&self.objects, &self.bucket, key, bytes)
    }

    /// Takes an object away.
    pub fn remove(&self, key: &str) {
        if let Some(bucket) = self.objects.all().get_mut(&self.bucket) {
            bucket.objects.remove(key);
        }
    }

    /// The bytes of an object of the first bucket.
    pub fn object(&self, key: &str) -> Option<Vec<u8>> {
        let object = self
            .objects
            .all()
            .get(&self.bucket)?
            .objects
            .get(key)
            .cloned()?;
        object.bytes().ok()
    }

    /// Keys and sizes of the objects of the first bucket.
    pub fn objects(&self) -> Vec<(String, u64)> {
        let all = self.objects.all();
        let objects = all.get(&self.bucket).map(|bucket| bucket.objects.iter());
        let objects = objects.into_iter().flatten();
        objects
            .map(|(key, object)| (key.clone(), object.size()))
            .collect()
    }

    /// The ETag of an object of the first bucket.
    pub fn etag(&self, key: &str) -> Option<String> {
        let all = self.objects.all();
        Some(all.get(&self.bucket)?.objects.get(key)?.etag.clone())
    }

    /// The uploads to the first bucket that are under way or were left.
    pub fn uploads(&self) -> Vec<Upload> {
        let all = self.objects.all();
        let uploads = all.get(&self.bucket).map(|bucket| bucket.uploads.iter());
        let uploads = uploads.into_iter().flatten();
        uploads
            .map(|(id, upload)| Upload {
                key: upload.key.clone(),
                id: id.clone(),
                parts: upload
                    .pieces
                    .iter()
                    .map(|(number, piece)| (*number, piece.length))
                    .collect(),
            })
            .collect()
    }

    /// Loses a part of an upload.
    pub fn drop_part(&self, id: &str, number: i32) {
        if let Some(bucket) = self.objects.all().get_mut(&self.bucket)
            && let Some(upload) = bucket.uploads.get_mut(id)
        {
            upload.pieces.remove(&number);
        }
    }

    /// Loses an upload, as a store's own clearing of old ones does.
    pub fn drop_upload(&self, id: &str) {
        if let Some(bucket) = self.objects.all().get_mut(&self.bucket) {
            bucket.uploads.remove(id);
        }
    }

    /// From now on at most `parts` further parts are stored, and the others
    /// are not answered, until this is called again.
    pub fn allow(&self, parts: u64) {
        self.objects.allow(parts);
    }

    /// How many parts were stored in all.
    pub fn stored_parts(&self) -> u64 {
        self.objects.stored()
    }
}

fn put(objects: &Objects, bucket: &str, key: &str, bytes: &[u8]) -> io::Result<()> {
    let piece = Piece::new(&objects.folder, bytes, None).map_err(io::Error::other)?;
    let placed = objects.within(bucket, |bucket| {
        let object = Object::of(piece, None);
        bucket.objects.insert(key.to_owned(), object);
        Ok(())
    });
    placed.map_err(io::Error::other)
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // What is under way ends here too, as when a server dies.
            runtime.shutdown_background();
        }
    }
}
