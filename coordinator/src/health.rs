//! The plain HTTP endpoints: `/healthz`, `/readyz`, `/metrics`.
//!
//! A standby is ready: what it has to be ready for is taking over.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// Serves the endpoints on `listener` until `stop`.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let exposition = move || async move {
        let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4")];
        (kind, metrics.render())
    };
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(|| async { "ok" }))
        .route("/metrics", get(exposition));
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}
