//! A web server for one image, that sends only as much as it is allowed to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Bytes that are sent at a time.
const CHUNK: usize = 64 << 10;

/// An image on the web.
#[derive(Clone)]
pub struct Web {
    image: Bytes,
    allowed: Arc<Semaphore>,
    sent: Arc<AtomicU64>,
    port: u16,
}

impl Web {
    /// Serves `image`, and at first nothing of it.
    pub async fn serve(image: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (allowed, sent) = (Arc::new(Semaphore::new(0)), Arc::default());
        let web = Self {
            image: image.into(),
            allowed,
            sent,
            port,
        };
        let app = Router::new()
            .route("/{name}", get(answer))
            .with_state(web.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        web
    }

    pub fn url(&self) -> String {
        format!(
            "http://127.0.0.1:{}/image.qcow2?signature=s3cret",
            self.port
        )
    }

    /// Lets about as many more bytes through.
    pub fn allow(&self, bytes: usize) {
        self.allowed.add_permits(bytes / CHUNK);
    }

    /// Bytes sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

fn range(headers: &HeaderMap, length: usize) -> Option<(usize, usize)> {
    let text = headers
        .get(header::RANGE)?
        .to_str()
        .ok()?
        .strip_prefix("bytes=")?;
    let (first, last) = text.split_once('-')?;
    let last = last.parse().unwrap_or(usize::MAX).min(length - 1);
    Some((first.parse().ok()?, last + 1))
}

async fn answer(State(web): State<Web>, headers: HeaderMap) -> Response<Body> {
    let length = web.image.len();
    let part = range(&headers, length);
    let (start, end) = part.unwrap_or((0, length));
    let mut response = Response::builder()
        .header(header::ACCEPT_RANGES, "bytes")
        .header(header::ETAG, "\"one\"")
        .header(header::CONTENT_LENGTH, end - start);
    if part.is_some() {
        response = response.status(StatusCode::PARTIAL_CONTENT).header(
            header::CONTENT_RANGE,
            format!("bytes {start}-{}/{length}", end - 1),
        );
    }
    let chunks = futures::stream::unfold(start, move |at| {
        let web = web.clone();
        async move {
            if at >= end {
                return None;
            }
            web.allowed.acquire().await.ok()?.forget();
            let next = (at + CHUNK).min(end);
            web.sent.fetch_add((next - at) as u64, Ordering::Relaxed);
            Some((Ok::<_, std::io::Error>(web.image.slice(at..next)), next))
        }
    });
    response.body(Body::from_stream(chunks)).unwrap()
}
