//! A web server with files that it serves in ranges, and with the manners
//! that a test asks for.

mod guard;

pub use guard::Guard;

use std::collections::HashMap;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path as Route, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::cluster::{Cluster, Scope};

/// Bytes in one piece of a body.
const PIECE: u64 = 256 << 10;

type Entries = Arc<std::sync::Mutex<HashMap<String, Arc<Entry>>>>;

/// A web server on an address that the cluster's pods reach. It ends with
/// this value.
pub struct Server {
    scheme: &'static str,
    address: SocketAddr,
    entries: Entries,
    task: tokio::task::JoinHandle<()>,
}

struct Entry {
    content: Content,
    served: AtomicU64,
    gate: watch::Sender<u64>,
}

enum Content {
    File {
        file: File,
        size: u64,
    },
    Answer {
        status: StatusCode,
        content_type: &'static str,
        body: &'static str,
    },
}

/// One address of the server.
pub struct Address {
    /// The URL that a resource names.
    pub url: String,
    entry: Arc<Entry>,
}

impl Address {
    /// Lets at most `bytes` of the body leave from now on, until the next
    /// call; `u64::MAX` opens the gate.
    pub fn allow(&self, bytes: u64) {
        self.entry.gate.send_replace(bytes);
    }

    /// Bytes of body that have left.
    pub fn served(&self) -> u64 {
        self.entry.served.load(Ordering::SeqCst)
    }
}

/// What a test of an import stands on: a namespace whose name starts with
/// `test`, and a server that the cluster's pods reach.
pub async fn stage(test: &str) -> anyhow::Result<(Scope, Server)> {
    let cluster = Cluster::connect().await?;
    let server = Server::start(cluster.address_for_pods().await?).await?;
    Ok((cluster.scope(test).await?, server))
}

impl Server {
    /// Starts a server on `address`.
    pub async fn start(address: IpAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self::of(listener, address, "http", |router| router))
    }

    /// Starts a server on `address` that speaks TLS, and answers only who
    /// shows what `guard` asks for. Its certificate is of the authority that
    /// comes with it, as PEM.
    pub async fn guarded(address: IpAddr, guard: Guard) -> anyhow::Result<(Self, String)> {
        let listener = TcpListener::bind((address, 0)).await?;
        let (listener, authority) = guard::Tls::new(listener)?;
        let address = listener.address();
        let server = Self::of(listener, address, "https", |router| guard.before(router));
        Ok((server, authority))
    }

    fn of<L>(
        listener: L,
        address: SocketAddr,
        scheme: &'static str,
        wrap: impl FnOnce(Router) -> Router,
    ) -> Self
    where
        L: axum::serve::Listener<Addr = SocketAddr>,
    {
        let entries = Entries::default();
        let router = Router::new()
            .route("/{name}", axum::routing::get(serve))
            .with_state(Arc::clone(&entries));
        let router = wrap(router);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the test's web server ended: {error}");
            }
        });
        Self {
            scheme,
            address,
            entries,
            task,
        }
    }

    /// Serves the file at `path` as `name`.
    pub fn file(&self, name: &str, path: &Path) -> anyhow::Result<Address> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        self.add(name, Content::File { file, size })
    }

    /// Answers every request for `name` alike.
    pub fn answer(
        &self,
        name: &str,
        status: StatusCode,
        content_type: &'static str,
        body: &'static str,
    ) -> anyhow::Result<Address> {
        self.add(
            name,
            Content::Answer {
                status,
                content_type,
                body,
            },
        )
    }

    /// The URL of something that is not there.
    pub fn missing(&self) -> String {
        format!("{}://{}/missing.qcow2", self.scheme, self.address)
    }

    fn add(&self, name: &str, content: Content) -> anyhow::Result<Address> {
        let gate = watch::Sender::new(u64::MAX);
        let entry = Arc::new(Entry {
            content,
            served: AtomicU64::new(0),
            gate,
        });
        let mut entries = self.entries.lock().ok().context("a request died")?;
        entries.insert(name.to_owned(), Arc::clone(&entry));
        Ok(Address {
            url: format!("{}://{}/{name}", self.scheme, self.address),
            entry,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    State(entries): State<Entries>,
    Route(name): Route<String>,
    headers: HeaderMap,
) -> Response<Body> {
    let entry = entries
        .lock()
        .ok()
        .and_then(|entries| entries.get(&name).cloned());
    let Some(entry) = entry else {
        return plain(StatusCode::NOT_FOUND, "text/plain", "no such image\n");
    };
    match &entry.content {
        Content::Answer {
            status,
            content_type,
            body,
        } => plain(*status, content_type, body),
        Content::File { size, .. } => {
            let size = *size;
            let range = headers.get(header::RANGE).and_then(|v| v.to_str().ok());
            let (start, end, partial) = match range.map(|text| parse_range(text, size)) {
                None => (0, size, false),
                Some(Some((start, end))) => (start, end, true),
                Some(None) => return plain(StatusCode::RANGE_NOT_SATISFIABLE, "text/plain", ""),
            };
            let mut response = Response::builder()
                .header(header::ACCEPT_RANGES, "bytes")
                .header(header::ETAG, "\"one\"")
                .header(header::CONTENT_TYPE, "application/octet-stream")
                .header(header::CONTENT_LENGTH, end - start);
            if partial {
                response = response.status(StatusCode::PARTIAL_CONTENT).header(
                    header::CONTENT_RANGE,
                    format!("bytes {start}-{}/{size}", end - 1),
                );
            }
            response
                .body(Body::from_stream(pieces(entry, start, end)))
                .unwrap_or_default()
        }
    }
}

fn plain(status: StatusCode, content_type: &str, body: &'static str) -> Response<Body> {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, content_type)
        .body(Body::from(body))
        .unwrap_or_default()
}

/// Start and end (exclusive) of `bytes=a-b` or `bytes=a-` within `size`.
fn parse_range(text: &str, size: u64) -> Option<(u64, u64)> {
    let (start, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let start: u64 = start.parse().ok()?;
    let end = if last.is_empty() {
        size
    } else {
        last.parse::<u64>().ok()?.saturating_add(1)
    };
    (start < size && start < end).then(|| (start, end.min(size)))
}

/// The bytes from `start` to `end`, each piece waiting at the gate.
fn pieces(
    entry: Arc<Entry>,
    start: u64,
    end: u64,
) -> impl futures::Stream<Item = std::io::Result<Bytes>> {
    futures::stream::try_unfold((entry, start), move |(entry, offset)| async move {
        if offset >= end {
            return Ok(None);
        }
        let length = PIECE.min(end - offset);
        let mut gate = entry.gate.subscribe();
        gate.wait_for(|allowed| entry.served.load(Ordering::SeqCst) < *allowed)
            .await
            .map_err(std::io::Error::other)?;
        let reader = Arc::clone(&entry);
        let piece = tokio::task::spawn_blocking(move || {
            let Content::File { file, .. } = &reader.content else {
                return Err(std::io::Error::other("not a file"));
            };
            let mut piece = vec![0; length as usize];
            file.read_exact_at(&mut piece, offset)?;
            Ok(Bytes::from(piece))
        })
        .await
        .map_err(std::io::Error::other)??;
        entry.served.fetch_add(length, Ordering::SeqCst);
        Ok(Some((piece, (entry, offset + length))))
    })
}
