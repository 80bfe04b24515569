//! Work that the cluster does: a resource is made, and followed to its end.
//!
//! The work is the coordinator's: this tells what the resource's status tells.
//! Whoever stops following stops nothing. Only the kubectl plug-in has it: it
//! needs a cluster.

mod connect;
mod course;
mod failure;
mod follow;
#[cfg(test)]
pub(crate) mod mock;
mod show;
mod words;

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args};
use kube::api::{Api, PostParams};
use serde::Serialize;

use crate::arguments::Format;
use crate::stop::stop_asked;

pub(crate) use self::connect::{ClusterArguments, ContextArguments, quoted};
pub(crate) use self::course::{Course, Said, Step, bytes, percent};
pub(crate) use self::failure::Failure;
pub(crate) use self::follow::Followed;
pub(crate) use self::follow::PAUSES;
use self::follow::{Whose, follow};
use self::show::{Audience, Reporter, Screen};
pub(crate) use self::show::{Figures, Outcome};
pub(crate) use self::words::{duration, object_name};

/// Name under which this writes to the cluster.
const FIELD_MANAGER: &str = "kubectl-hcs";
/// Longest part of a disk's name that a generated name keeps.
const MOST_OF_NAME: usize = 200;

/// What a kind of work is called.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// In a sentence.
    pub(crate) word: &'static str,
    /// The kind of its resource.
    pub(crate) kind: &'static str,
    /// The same as kubectl takes it.
    pub(crate) resource: &'static str,
    /// What holds where the resource vanishes before its end.
    pub(crate) vanished: &'static str,
}

/// How long is waited.
#[derive(Debug, Args)]
pub(crate) struct Waiting {
    /// Wait until it is done
    #[arg(
        long,
        action = ArgAction::Set,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    pub(crate) wait: bool,
    /// Wait no longer than this, as 90s, 5m or 1h30m
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
}

/// Has the cluster do what a resource says, and shows it.
pub(crate) async fn run<K: Followed + Serialize>(
    cluster: impl Future<Output = Result<Api<K>, Failure>>,
    resource: K,
    waiting: &Waiting,
    format: Format,
) -> ExitCode {
    let mut reporter = Reporter::new(format, Screen::of_process());
    let result = match cluster.await {
        Ok(api) => carry_out(&api, resource, waiting, &mut reporter, stop_asked()).await,
        Err(failure) => Err(failure),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            reporter.failed(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Makes a resource and follows it until it is over, `stop` is, or there is
/// no more time.
///
/// # Errors
/// It was not made, did not end well, or was not seen to its end.
pub(crate) async fn carry_out<K: Followed + Serialize>(
    api: &Api<K>,
    resource: K,
    waiting: &Waiting,
    audience: &mut impl Audience<K>,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = api
        .create(&parameters, &resource)
        .await
        .map_err(|error| Failure::create(K::WORK, error))?;
    let whose = Whose::of(&made);
    audience.created(whose.namespace.as_deref(), &whose.name);
    if !waiting.wait {
        return Ok(());
    }
    let limit = async {
        match waiting.timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let done = tokio::select! {
        // Whoever saw that it began can stop.
        biased;
        () = stop => return Err(Failure::Stopped { whose }),
        done = follow(api, made, &whose, audience) => done?,
        () = limit => {
            let timeout = waiting.timeout.unwrap_or_default();
            return Err(Failure::Timeout { whose, timeout });
        }
    };
    audience.done(&done);
    Ok(())
}

/// The beginning of a generated name: the disk's.
pub(crate) fn generated_name(disk: &str) -> String {
    // Cut where the name of an object may end.
    let start = disk.get(..MOST_OF_NAME).unwrap_or(disk);
    let start = start.trim_end_matches(['-', '.']);
    format!("{start}-")
}
