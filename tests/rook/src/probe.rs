//! What kubelet asks.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::orders::Orders;

#[derive(Clone)]
struct Subject {
    workload: String,
    orders: watch::Receiver<Orders>,
}

/// Answers probes on a port for as long as the program runs: alive always,
/// ready unless the workload is ordered down.
pub async fn serve(
    port: u16,
    workload: String,
    orders: watch::Receiver<Orders>,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", port)).await?;
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .with_state(Subject { workload, orders });
    axum::serve(listener, router).await?;
    Ok(())
}

async fn ready(State(subject): State<Subject>) -> (StatusCode, &'static str) {
    match subject.orders.borrow().down.contains(&subject.workload) {
        true => (StatusCode::SERVICE_UNAVAILABLE, "down as it was ordered"),
        false => (StatusCode::OK, "ok"),
    }
}
