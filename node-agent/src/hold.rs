//! `node-agent hold`: a process that does nothing until it is told to end.
//!
//! It is the container of a holder pod, whose only purpose is that kubelet
//! keeps a claim attached and mounted. As process 1 of a container it gets no
//! default action for a signal, so without a handler it would sit out the
//! pod's whole grace period. It must not touch the volume.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Completes at SIGTERM or SIGINT. The handlers stand when this returns, not
/// when the future is first polled.
pub fn termination() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Waits for SIGTERM or SIGINT on a runtime of its own.
pub fn run() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        termination()?.await;
        Ok(())
    })
}
