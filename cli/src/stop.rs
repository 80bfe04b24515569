//! When the user wants to stop.

/// Ends at the first sign that the user wants to stop: SIGINT or SIGTERM.
pub(crate) async fn stop_asked() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        result = tokio::signal::ctrl_c() => if result.is_err() { std::future::pending().await },
    }
}
