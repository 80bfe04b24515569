//! Virtual machines: a pod as KubeVirt would make it boots a claim's disk.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::cluster::Scope;
use crate::pod::Once;
use crate::system::machine_image;

/// How long a machine may take from its pod's making to its end: emulated in
/// software, beside others, on few cores.
const LIMIT: Duration = Duration::from_secs(900);

/// A disk that boots, as an image file: the demonstration's.
pub fn bootable_disk() -> anyhow::Result<PathBuf> {
    std::env::var_os("HCS_E2E_BOOTABLE_DISK")
        .map(PathBuf::from)
        .context("HCS_E2E_BOOTABLE_DISK names no disk; `make e2e` makes one and sets it")
}

/// A machine that booted, did what it was told and went off by itself.
pub struct Run {
    /// What each command printed.
    pub answers: Vec<String>,
    /// Everything that its console said.
    pub transcript: String,
    /// When its pod's program began and ended.
    pub time: (Time, Time),
}

/// Boots the disk of `claim`, a volume of `mode`, to the login prompt, runs the
/// shell commands one after the other, and has the machine go off. All of it
/// has to go well; the error has the transcript.
pub async fn boot(
    scope: &Scope,
    claim: &str,
    mode: &str,
    commands: &[&str],
) -> anyhow::Result<Run> {
    let disk = match mode {
        "Block" => "/dev/volume",
        _ => "/volume/disk.img",
    };
    let words = ["/usr/bin/test-machine", "--boot-limit=500", disk, "--"];
    let machine = Once {
        name: "machine",
        image: machine_image(),
        command: words
            .iter()
            .chain(commands)
            .map(|w| w.to_string())
            .collect(),
        claim,
        mode,
        limit: LIMIT,
    };
    let end = machine.run(scope).await?;
    let transcript = end.logs;
    ensure!(
        end.state.exit_code == 0,
        "the machine on {claim} ended with {}:\n{transcript}",
        end.state.exit_code
    );
    let answers = (1..=commands.len())
        .map(|number| answer(&transcript, number))
        .collect::<Option<_>>()
        .with_context(|| format!("an answer is not in the transcript:\n{transcript}"))?;
    let time = end.state.started_at.zip(end.state.finished_at);
    Ok(Run {
        answers,
        transcript,
        time: time.context("a container that ended has no times")?,
    })
}

/// What command `number` printed, between the lines that enclose it.
fn answer(transcript: &str, number: usize) -> Option<String> {
    let (_, rest) = transcript.split_once(&format!("== {number}: "))?;
    let (_, rest) = rest.split_once('\n')?;
    let (answer, _) = rest.split_once(&format!("== {number}: exit 0 =="))?;
    Some(answer.trim().to_owned())
}
