//! What a component was, what it is, and what the whole is by that.
//!
//! Invariant: the whole is OK only while every component was judged healthy
//! at the last look.

mod conditions;

pub use conditions::conditions;

use hypercloud_api::{ComponentState, StorageComponent, StorageState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::health::{Judgement, Verdict};
use crate::stage::Stage;
use crate::version::Version;

/// What a component is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim {
    /// The version that it is to have.
    pub version: Version,
    /// Whether it, or what it rests on, is being upgraded.
    pub upgrading: bool,
}

/// What a component becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Those before it come first. One that is installed is judged all the
    /// same, since what goes wrong meanwhile has to be seen.
    Waiting(String),
    /// It was judged.
    Judged(Judgement),
}

/// The component after a look.
///
/// A component that was never ready with this version may take until its
/// limit; one that was fails at once, and comes back by itself. What takes up
/// a change has until the limit too, and parts of it may be missing meanwhile.
#[must_use]
pub fn step(
    stage: &Stage,
    before: Option<&StorageComponent>,
    turn: &Turn,
    aim: Aim,
    now: Timestamp,
) -> StorageComponent {
    let target = aim.version.to_string();
    let version = before.and_then(|component| component.version.clone());
    let judgement = match turn {
        Turn::Judged(judgement) => judgement,
        Turn::Waiting(message) => {
            let waiting = (ComponentState::Waiting, "Waiting", message.clone());
            return next(stage, before, waiting, version, now);
        }
    };
    let reached = version.as_deref() == Some(target.as_str());
    let limit = match version {
        Some(_) if !reached || aim.upgrading => stage.upgrade_limit,
        _ => stage.limit,
    };
    let was_well = before.is_some_and(|component| component.state.is_healthy());
    let state = match judgement.verdict {
        Verdict::Healthy => ComponentState::Ready,
        Verdict::Warned => ComponentState::Warning,
        Verdict::Hopeless => ComponentState::Failed,
        Verdict::Unhealthy if reached => ComponentState::Failed,
        Verdict::Lacking if reached && was_well && !aim.upgrading => ComponentState::Failed,
        Verdict::Unhealthy | Verdict::Lacking | Verdict::Changing => match before {
            Some(component) if component.state == ComponentState::Failed => ComponentState::Failed,
            Some(component) if is_late(component, limit, now) => ComponentState::Failed,
            _ => ComponentState::Progressing,
        },
    };
    let timed_out = before.is_some_and(|component| is_late(component, limit, now))
        && judgement.verdict != Verdict::Hopeless;
    let message = match late(before, state, timed_out, limit) {
        Some(prefix) => format!("{prefix}: {}", judgement.message),
        None => judgement.message.clone(),
    };
    let version = if state.is_healthy() {
        Some(target)
    } else {
        version
    };
    next(
        stage,
        before,
        (state, judgement.reason, message),
        version,
        now,
    )
}

/// Whether a component has been at it for longer than it may.
fn is_late(component: &StorageComponent, limit: std::time::Duration, now: Timestamp) -> bool {
    let Some(Time(since)) = component.since else {
        return false;
    };
    let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    component.state == ComponentState::Progressing && now.duration_since(since) > limit
}

/// What is said before the message of a component that failed because it took
/// too long, as long as it has not come back.
fn late(
    before: Option<&StorageComponent>,
    state: ComponentState,
    timed_out: bool,
    limit: std::time::Duration,
) -> Option<String> {
    let before = before.filter(|_| state == ComponentState::Failed)?;
    let prefix = format!("not done within {} minutes", limit.as_secs() / 60);
    let is_late = match before.state {
        ComponentState::Progressing => timed_out,
        ComponentState::Failed => before
            .message
            .as_ref()
            .is_some_and(|message| message.starts_with(&prefix)),
        _ => false,
    };
    is_late.then_some(prefix)
}

fn next(
    stage: &Stage,
    before: Option<&StorageComponent>,
    (state, reason, message): (ComponentState, &str, String),
    version: Option<String>,
    now: Timestamp,
) -> StorageComponent {
    let since = before
        .filter(|component| component.state == state)
        .and_then(|component| component.since.clone());
    StorageComponent {
        name: stage.name.to_owned(),
        state,
        reason: Some(reason.to_owned()),
        message: Some(message).filter(|message| !message.is_empty()),
        since: since.or(Some(Time(now))),
        version,
    }
}

/// What is wrong beside the components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// One CamelCase word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Whether it passes by itself.
    pub waiting: bool,
}

/// What the whole is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Its state.
    pub state: StorageState,
    /// Components that are healthy, of all.
    pub ready: String,
    /// One CamelCase word.
    pub reason: String,
    /// What is wrong or waited for.
    pub message: String,
}

/// What the whole is, by its components and by what is asked for and cannot
/// be done.
#[must_use]
pub fn whole(
    components: &[StorageComponent],
    problems: &[Problem],
    targets: &dyn Fn(&str) -> Option<Version>,
    deleting: Option<&Problem>,
) -> Whole {
    let healthy = components.iter().filter(|c| c.state.is_healthy()).count();
    let ready = format!("{healthy}/{}", components.len());
    let make = |state, reason: &str, message: String| Whole {
        state,
        ready: ready.clone(),
        reason: reason.to_owned(),
        message,
    };
    if let Some(problem) = deleting {
        return make(
            StorageState::Deleting,
            problem.reason,
            problem.message.clone(),
        );
    }
    if let Some(problem) = problems.iter().find(|problem| !problem.waiting) {
        return make(StorageState::Error, problem.reason, problem.message.clone());
    }
    let first = |state: ComponentState| components.iter().find(|c| c.state == state);
    let say = |component: &StorageComponent| match &component.message {
        Some(message) => format!("{}: {message}", component.name),
        None => component.name.clone(),
    };
    let of = |state, component: &StorageComponent| {
        let reason = component.reason.as_deref().unwrap_or("Unknown");
        make(state, reason, say(component))
    };
    if let Some(failed) = first(ComponentState::Failed) {
        return of(StorageState::Error, failed);
    }
    let other = |component: &&StorageComponent| {
        let target = targets(&component.name).map(|version| version.to_string());
        component.version.is_some() && component.version != target
    };
    if let Some(component) = components.iter().find(other) {
        return of(StorageState::Upgrading, component);
    }
    if let Some(problem) = problems.first() {
        return make(
            StorageState::Installing,
            problem.reason,
            problem.message.clone(),
        );
    }
    for state in [ComponentState::Progressing, ComponentState::Waiting] {
        if let Some(component) = first(state) {
            return of(StorageState::Installing, component);
        }
    }
    if components.is_empty() {
        let message = "nothing is installed yet".to_owned();
        return make(StorageState::Installing, "Waiting", message);
    }
    match first(ComponentState::Warning) {
        Some(component) => of(StorageState::Warning, component),
        None => make(StorageState::Ok, "Healthy", String::new()),
    }
}

#[cfg(test)]
mod tests;
