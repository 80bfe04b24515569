//! Plain HTTP for kubelet's probes and for metrics, on a port of its own.
//!
//! `/healthz` says that the process turns over, `/readyz` that the
//! coordinator can talk to it, `/metrics` counts. Invariant: nothing here
//! shows what a job is about; the port has no authentication.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::devices::board::DeviceBoard;
use crate::job::board::{Board, Status};
use crate::job::state::Phase;

/// Longest time that the agent may take to answer `node-agent healthy`.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// What the answers are made of.
#[derive(Clone)]
pub struct Health {
    /// All jobs.
    pub board: Board,
    /// The node's devices.
    pub devices: DeviceBoard,
    /// Whether the coordinator can talk to the agent.
    pub ready: watch::Receiver<bool>,
    /// Files of the journal that were set aside at the start.
    pub set_aside: usize,
}

/// Answers on `listener` until `stop`.
pub async fn serve(listener: TcpListener, health: Health, stop: CancellationToken) {
    let app = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(health);
    let served = axum::serve(listener, app)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "health server failed");
    }
}

async fn readyz(State(health): State<Health>) -> (StatusCode, &'static str) {
    if *health.ready.borrow() {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "no usable certificates yet\n",
        )
    }
}

async fn metrics(State(health): State<Health>) -> String {
    let mut text = of_jobs(&health.board.list(), health.set_aside);
    devices(&mut text, &health.devices);
    if let Some(memory) = crate::memory::resident() {
        for (name, value) in [
            ("process_resident_memory_bytes", memory.now),
            ("process_resident_memory_max_bytes", memory.peak),
        ] {
            let _ = writeln!(text, "# TYPE {name} gauge\n{name} {value}");
        }
    }
    text
}

/// What is counted of the jobs that are known now: a forgotten job takes its
/// bytes along.
fn of_jobs(jobs: &[Status], set_aside: usize) -> String {
    let names = [
        "pending",
        "preparing",
        "transferring",
        "verifying",
        "finalizing",
        "succeeded",
        "failed",
    ];
    let mut counts = [0u64; 7];
    let (mut received, mut written) = (0u64, 0u64);
    // Of exports: uploads that may have parts in a store.
    let mut uploads = 0u64;
    for job in jobs {
        let index = match job.phase {
            Phase::Pending => 0,
            Phase::Preparing => 1,
            Phase::Transferring => 2,
            Phase::Verifying => 3,
            Phase::Finalizing => 4,
            Phase::Succeeded => 5,
            Phase::Failed(_) => 6,
        };
        counts[index] += 1;
        received += job.progress.received;
        written += job.progress.written;
        uploads += u64::from(job.upload.is_some());
    }
    let mut text = String::from("# TYPE node_agent_jobs gauge\n");
    for (name, count) in names.iter().zip(counts) {
        let _ = writeln!(text, "node_agent_jobs{{phase=\"{name}\"}} {count}");
    }
    for (name, value) in [
        ("node_agent_jobs_received_bytes", received),
        ("node_agent_jobs_written_bytes", written),
        ("node_agent_jobs_uploads", uploads),
        ("node_agent_journal_files_set_aside", set_aside as u64),
    ] {
        let _ = writeln!(text, "# TYPE {name} gauge\n{name} {value}");
    }
    text
}

/// Figures of the node's devices, once they were looked at.
fn devices(text: &mut String, board: &DeviceBoard) {
    let Some(look) = board.latest() else { return };
    let available = look.devices.values().filter(|device| device.available);
    let (looks, took) = board.looks();
    for (name, kind, value) in [
        ("node_agent_devices", "gauge", look.devices.len() as u64),
        (
            "node_agent_devices_available",
            "gauge",
            available.count() as u64,
        ),
        ("node_agent_device_looks_total", "counter", looks),
    ] {
        let _ = writeln!(text, "# TYPE {name} {kind}\n{name} {value}");
    }
    let name = "node_agent_device_look_seconds";
    let _ = writeln!(text, "# TYPE {name} gauge\n{name} {}", took.as_secs_f64());
}

/// Asks the agent that serves its health on `address` of this machine.
pub fn ask(address: SocketAddr) -> io::Result<()> {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.set_write_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    if answer == *b"HTTP/1.1 200" {
        Ok(())
    } else {
        Err(io::Error::other("not healthy"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::spec::JobId;
    use crate::job::state::{Progress, State};

    #[test]
    fn uploads_are_counted_as_long_as_they_may_have_parts() {
        let job = |id: &str, phase, upload: Option<&str>| {
            let state = State {
                phase,
                progress: Progress {
                    total: 9,
                    done: 5,
                    received: 4,
                    written: 2,
                },
                upload: upload.map(str::to_owned),
                ..State::accepted()
            };
            Status::new(&JobId::parse(id).unwrap(), &state)
        };
        let jobs = [
            job("exports", Phase::Transferring, Some("u-1")),
            job("exported", Phase::Succeeded, None),
        ];
        let text = of_jobs(&jobs, 3);
        for line in [
            "node_agent_jobs{phase=\"transferring\"} 1",
            "node_agent_jobs{phase=\"succeeded\"} 1",
            "node_agent_jobs_received_bytes 8",
            "node_agent_jobs_written_bytes 4",
            "node_agent_jobs_uploads 1",
            "node_agent_journal_files_set_aside 3",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} not in\n{text}");
        }
    }
}
