//! The agent's log: JSON lines on standard output, filtered by `RUST_LOG`.

use tracing_subscriber::EnvFilter;

/// Makes the log ready. Later calls change nothing.
pub fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter);
    // The only error is that there is a log already.
    let _ = log.try_init();
}
