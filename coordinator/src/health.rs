//! The plain HTTP endpoints: `/healthz`, `/readyz`, `/metrics`.
//!
//! A standby is ready: what it has to be ready for is taking over, and judging
//! what is applied, for which it needs a certificate.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// Serves the endpoints on `listener` until `stop`; ready once `is_ready` says
/// so.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    is_ready: impl Fn() -> bool + Clone + Send + Sync + 'static,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let exposition = move || async move {
        let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4")];
        (kind, metrics.render())
    };
    let ready = move || async move {
        match is_ready() {
            true => (StatusCode::OK, "ok"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "starting"),
        }
    };
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(exposition));
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}
