//! An HTTP server that misbehaves as it is told.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    /// First and last byte.
    pub range: Option<(usize, usize)>,
    /// How many came before it.
    pub number: usize,
}

/// What is sent back.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The connection breaks after so many bytes of the body.
    pub cut: Option<usize>,
    /// Nothing more comes after so many bytes of the body.
    pub stall: Option<usize>,
    /// The body comes in so many bytes at once, with a pause before each.
    pub drip: Option<(usize, Duration)>,
    /// Sent in chunks, without a length.
    pub chunked: bool,
    /// Sent without a length; the end of the connection is the body's.
    pub until_close: bool,
    /// The length that is claimed.
    pub length: Option<usize>,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The whole of some bytes.
    pub fn whole(bytes: &[u8]) -> Self {
        Self {
            status: 200,
            body: bytes.to_vec(),
            ..Self::default()
        }
    }

    /// What a good server answers: the range that was asked for.
    pub fn of(request: &Request, bytes: &[u8]) -> Self {
        match request.range {
            Some((first, _)) if first >= bytes.len() => {
                Self::status(416).header("Content-Range", &format!("bytes */{}", bytes.len()))
            }
            Some((first, last)) => {
                let last = last.min(bytes.len() - 1);
                Self {
                    status: 206,
                    body: bytes[first..=last].to_vec(),
                    ..Self::default()
                }
                .header(
                    "Content-Range",
                    &format!("bytes {first}-{last}/{}", bytes.len()),
                )
            }
            None => Self::whole(bytes),
        }
    }

    /// The same with an ETag.
    pub fn tagged(request: &Request, bytes: &[u8]) -> Self {
        Self::of(request, bytes).header("ETag", "\"v1\"")
    }
}

/// A server on loopback, for as long as this lives.
pub struct Server {
    address: SocketAddr,
    scheme: &'static str,
    seen: Arc<Mutex<Vec<Request>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub async fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve(listener, None, handler)
    }

    /// With TLS.
    pub async fn start_tls(
        tls: TlsAcceptor,
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::serve(listener, Some(tls), handler)
    }

    pub fn serve(
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let handler = Arc::new(handler);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (handler, log, tls) = (Arc::clone(&handler), Arc::clone(&log), tls.clone());
                tokio::spawn(async move {
                    let _ = match tls {
                        None => serve(stream, &*handler, &log).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &*handler, &log).await,
                            Err(error) => Err(error),
                        },
                    };
                });
            }
        });
        Self {
            address,
            scheme,
            seen,
            task,
        }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    pub fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite,
    handler: &(impl Fn(&Request) -> Reply + Send + Sync),
    log: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    let (read, mut write) = tokio::io::split(stream);
    let mut read = BufReader::new(read);
    loop {
        let Some(mut request) = head(&mut read).await? else {
            return Ok(());
        };
        {
            let mut log = log.lock().unwrap();
            request.number = log.len();
            log.push(request.clone());
        }
        if !answer(&mut write, handler(&request)).await? {
            return Ok(());
        }
    }
}

async fn head(read: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if read.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or_default().to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        read.read_line(&mut line).await?;
        match line.trim().split_once(':') {
            Some((name, value)) => {
                headers.insert(name.to_lowercase(), value.trim().to_owned());
            }
            None => break,
        }
    }
    let range = headers.get("range").and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    });
    Ok(Some(Request {
        method,
        path,
        headers,
        range,
        number: 0,
    }))
}

/// Sends a reply; whether the connection goes on.
async fn answer(write: &mut (impl AsyncWrite + Unpin), reply: Reply) -> std::io::Result<bool> {
    let mut head = format!("HTTP/1.1 {} X\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head += &if reply.chunked {
        "Transfer-Encoding: chunked\r\n\r\n".to_owned()
    } else if reply.until_close {
        "Connection: close\r\n\r\n".to_owned()
    } else {
        format!(
            "Content-Length: {}\r\n\r\n",
            reply.length.unwrap_or(reply.body.len())
        )
    };
    write.write_all(head.as_bytes()).await?;
    let end = reply
        .cut
        .or(reply.stall)
        .unwrap_or(reply.body.len())
        .min(reply.body.len());
    if reply.chunked {
        for chunk in reply.body[..end].chunks(10_000) {
            write
                .write_all(format!("{:x}\r\n", chunk.len()).as_bytes())
                .await?;
            write.write_all(chunk).await?;
            write.write_all(b"\r\n").await?;
        }
        if reply.cut.is_none() {
            write.write_all(b"0\r\n\r\n").await?;
        }
    } else if let Some((size, pause)) = reply.drip {
        for drop in reply.body[..end].chunks(size) {
            tokio::time::sleep(pause).await;
            write.write_all(drop).await?;
            write.flush().await?;
        }
    } else {
        write.write_all(&reply.body[..end]).await?;
    }
    write.flush().await?;
    if reply.stall.is_some() {
        std::future::pending::<()>().await;
    }
    let whole = end == reply.body.len() && reply.length.is_none_or(|l| l == reply.body.len());
    Ok(reply.cut.is_none() && whole && !reply.until_close)
}
