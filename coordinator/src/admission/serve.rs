//! The connections that the API server asks over: HTTP/1.1 in TLS.
//!
//! Whoever reaches the port may connect, so everything has a bound: how many
//! connections there are, how long a handshake, a header and a review take,
//! and how long a body is.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::version::{TLS12, TLS13};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::PATH;
use super::answer::Judge;
use super::certificate::Certificate;
use super::review::{answer, read};

/// Longest body: an object and the one before it, of which the API server keeps
/// none beyond half of this.
const BODY: usize = 3 << 20;
/// How long a handshake may take, and a request's header, the wait for it
/// included.
const OPENING: Duration = Duration::from_secs(10);
/// How many connections there are at once.
const CONNECTIONS: usize = 64;
/// How long to wait where no connection can be taken, as with too many open
/// files.
const RESPITE: Duration = Duration::from_millis(100);

/// Answers on `listener` until `stop`.
pub async fn serve(
    listener: TcpListener,
    certificate: Arc<Certificate>,
    judge: Judge,
    stop: CancellationToken,
) -> Result<(), rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    while let Some(accepted) = stop.run_until_cancelled(accept(&listener, &room)).await {
        match accepted {
            Ok((stream, permit)) => {
                let (acceptor, judge, stop) = (acceptor.clone(), judge.clone(), stop.clone());
                connections.spawn(async move {
                    connection(stream, &acceptor, judge, stop).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection to the webhook");
                tokio::time::sleep(RESPITE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, Option<OwnedSemaphorePermit>)> {
    // Closed by nobody.
    let permit = Arc::clone(room).acquire_owned().await.ok();
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

/// Answers on one connection until it ends, or the request after `stop`.
async fn connection(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    judge: Judge,
    stop: CancellationToken,
) {
    let stream = match timeout(OPENING, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "no TLS with the webhook"),
        Err(_) => return tracing::debug!("no TLS with the webhook in time"),
    };
    let service = service_fn(|request| respond(request, &judge));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        // One review each: the API server would send the next into a connection
        // that is just being closed here, and does not repeat it.
        .keep_alive(false)
        .header_read_timeout(OPENING);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the webhook");
    }
}

async fn respond(request: Request<Incoming>, judge: &Judge) -> Result<Response<Body>, Infallible> {
    if request.uri().path() != PATH {
        return Ok(plain(StatusCode::NOT_FOUND, "nothing is here".to_owned()));
    }
    if request.method() != Method::POST {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "POST a review".to_owned());
        let post = http::HeaderValue::from_static("POST");
        response.headers_mut().insert(ALLOW, post);
        return Ok(response);
    }
    let until = judge.until();
    let body = async {
        let turn = judge.turn().await;
        (to_bytes(Body::new(request.into_body()), BODY).await, turn)
    };
    let (body, _turn) = match timeout_at(until, body).await {
        Ok((Ok(body), turn)) => (body, turn),
        Ok((Err(error), _)) => {
            return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()));
        }
        Err(_) => {
            let busy = "too many reviews, or the body did not come in time".to_owned();
            return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, busy));
        }
    };
    let review = match read(&body) {
        Ok(review) => review,
        Err(error) => return Ok(plain(StatusCode::BAD_REQUEST, error.to_string())),
    };
    let verdict = judge.judge(&review, until).await;
    let answer = answer(&review.uid, &verdict).to_string();
    Ok(with(StatusCode::OK, "application/json", answer))
}

fn plain(code: StatusCode, text: String) -> Response<Body> {
    with(code, "text/plain; charset=utf-8", text)
}

fn with(code: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    let kind = http::HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
