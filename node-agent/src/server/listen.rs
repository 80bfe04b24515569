//! Accepts connections and does their handshakes, many at a time.
//!
//! Invariant: a client that connects and says nothing holds up nobody; it is
//! dropped after a while, and only so many of them are kept at all.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

/// Longest time from the connection to the end of the handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Handshakes that may go on at the same time.
const HANDSHAKES: usize = 64;
/// Pause after the system refused to accept, as when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Connections whose client proved who it is, until `stop`. Runs a task that
/// ends with the stream, or at `stop`.
pub(super) fn encrypted(
    listener: Arc<TcpListener>,
    config: Arc<ServerConfig>,
    stop: CancellationToken,
) -> impl Stream<Item = io::Result<TlsStream<TcpStream>>> {
    let (accepted, stream) = mpsc::channel(1);
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = accepted.closed() => {}
            () = accept_all(&listener, &config, &accepted) => {}
        }
    });
    ReceiverStream::new(stream)
}

async fn accept_all(
    listener: &TcpListener,
    config: &Arc<ServerConfig>,
    accepted: &mpsc::Sender<io::Result<TlsStream<TcpStream>>>,
) {
    let turns = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(turn) = turns.clone().acquire_owned().await else {
            return;
        };
        let (stream, peer) = match listener.accept().await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (acceptor, accepted) = (TlsAcceptor::from(config.clone()), accepted.clone());
        tokio::spawn(async move {
            let _turn = turn;
            // Answers are small and wanted at once.
            let _ = stream.set_nodelay(true);
            match tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let _ = accepted.send(Ok(stream)).await;
                }
                Ok(Err(error)) => tracing::warn!(%peer, %error, "client refused"),
                Err(_) => tracing::debug!(%peer, "client did not finish its handshake"),
            }
        });
    }
}
