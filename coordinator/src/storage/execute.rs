//! Does what was decided (client required). Nothing is decided here.
//!
//! Every effect may be repeated. What the API server refuses is remembered for
//! the next decision, and keeps nothing else from being done.

use std::borrow::Cow;
use std::time::Instant;

use futures::{StreamExt, stream};
use hypercloud_api::HyperCloudStorage;
use hypercloud_storage::decide::Decision;
use hypercloud_storage::health::cluster_key;
use hypercloud_storage::object::{Desired, Keep, Key};
use hypercloud_storage::plan::deletion::Step;
use hypercloud_storage::refusal::Asked;
use hypercloud_storage::render::cluster::{confirmation, withdrawal};
use kube::api::DeleteParams;
use kube::{Api, Client, Error as KubeError, ResourceExt};
use serde_json::Value;

use super::look::Objects;
use super::observe::Looked;
use super::reconcile::Context;
use super::{ceph, dynamic};
use crate::shell::error::ExecuteError;
use crate::shell::write::{Finalizer, exactly, set_finalizer};

/// Objects of a kind that are applied at the same time.
const CONCURRENCY: usize = 4;

/// What an answer of the API server comes to.
enum Answer<T> {
    Done(T),
    /// A kind, or a namespace, is not there yet, or somebody was first: the
    /// next look tells.
    NotYet(u16),
    Refused(u16, String),
}

/// Does what was decided after a look; answers whether something changed by
/// it, so that it is worth looking again at once.
pub async fn execute(
    context: &Context,
    resource: &HyperCloudStorage,
    looked: &Looked,
    decision: &Decision,
) -> Result<bool, ExecuteError> {
    let client = &context.shell.client;
    let seen = &looked.objects.seen;
    if cannot_be_undone(decision) && !is_asked_still(client, resource).await? {
        return Ok(true);
    }
    let mut changed = apply(context, &looked.objects, &decision.apply).await?;
    changed |= delete(context, &looked.objects, &decision.remove).await?;
    if let Some(action) = &decision.purge {
        tracing::info!(?action, "a device is given up");
        ceph::act(client, resource, seen, action).await?;
    }
    match &decision.deletion {
        Some(Step::Delete(keys)) => changed |= delete(context, &looked.objects, keys).await?,
        Some(Step::Confirm) => {
            tracing::warn!("Rook is told to destroy the data");
            tell(context, &looked.objects, confirmation(&resource.spec)).await?;
            changed = true;
        }
        Some(Step::Withdraw) => {
            tracing::warn!("Rook is told to keep the data");
            tell(context, &looked.objects, withdrawal()).await?;
            changed = true;
        }
        Some(Step::Release) => {
            set_finalizer(client, resource, Finalizer::Absent).await?;
            // Nobody is told that it is gone.
            context.forget().await;
        }
        // Written to the status.
        Some(Step::RecordHosts(_) | Step::Wait { .. }) | None => {}
    }
    Ok(changed)
}

/// Whether what was decided takes something away for good.
fn cannot_be_undone(decision: &Decision) -> bool {
    let deletes = matches!(decision.deletion, Some(Step::Delete(_) | Step::Confirm));
    deletes || decision.purge.is_some() || !decision.remove.is_empty()
}

/// Whether what the decision was made by is what is asked for still: a look
/// takes its time, and somebody may have thought better of it.
async fn is_asked_still(
    client: &Client,
    resource: &HyperCloudStorage,
) -> Result<bool, ExecuteError> {
    let storages: Api<HyperCloudStorage> = Api::all(client.clone());
    let now = storages.get_opt(&resource.name_any()).await;
    let now = now.map_err(|source| {
        let what = "look at the HyperCloudStorage again";
        ExecuteError::Write { what, source }
    })?;
    let (of, read) = (now.map(|now| now.metadata), &resource.metadata);
    Ok(of.is_some_and(|of| {
        of.uid == read.uid && of.generation == read.generation && of.annotations == read.annotations
    }))
}

/// Applies what is due, in order; objects of a kind that follow each other at
/// the same time.
async fn apply(
    context: &Context,
    objects: &Objects,
    desired: &[Desired],
) -> Result<bool, ExecuteError> {
    let due: Vec<&Desired> = {
        let (memory, now) = (context.memory(), Instant::now());
        let is_due = |desired: &&Desired| memory.is_due(desired, objects, now);
        desired.iter().filter(is_due).collect()
    };
    let mut changed = false;
    for run in due.chunk_by(|one, other| one.key.kind == other.key.kind) {
        let asked: Vec<_> = run
            .iter()
            .map(|one| apply_one(context, objects, one))
            .collect();
        let answers: Vec<_> = stream::iter(asked).buffered(CONCURRENCY).collect().await;
        for (desired, answer) in run.iter().zip(answers) {
            let (mut memory, now) = (context.memory(), Instant::now());
            match answer? {
                Answer::Done(mark) => {
                    let is_new = memory.is_new(desired, objects);
                    let key = &desired.key;
                    if is_new {
                        tracing::info!(%key, "applied");
                    } else if objects.marks.get(key).copied() != mark {
                        tracing::info!(%key, "put right");
                    }
                    changed |= memory.applied(desired, mark, now) || is_new;
                }
                Answer::NotYet(_) => {}
                Answer::Refused(code, message) => {
                    let key = &desired.key;
                    tracing::warn!(%key, code, %message, "not applied");
                    let what = Asked::of(desired);
                    changed |= memory.refuse(key, what, (code, message), now);
                }
            }
        }
    }
    Ok(changed)
}

async fn apply_one(
    context: &Context,
    objects: &Objects,
    desired: &Desired,
) -> Result<Answer<Option<u64>>, ExecuteError> {
    let client = &context.shell.client;
    let Desired { key, object, keep } = desired;
    let result = match keep {
        Keep::Current => match over(client, objects, desired).await {
            Ok(object) => dynamic::apply(client, key, &object).await,
            Err(error) => Err(error),
        },
        // Somebody's own that came meanwhile stays.
        Keep::Seeded => match dynamic::create(client, key, object).await {
            Err(KubeError::Api(status)) if status.is_already_exists() => Ok(None),
            created => created.map(|()| None),
        },
    };
    answer(result, "apply an object of the storage")
}

/// The object as it is applied over what is there. Only what has a stage was
/// looked at: what is not among it may be somebody's own.
async fn over<'a>(
    client: &Client,
    objects: &Objects,
    desired: &'a Desired,
) -> Result<Cow<'a, Value>, KubeError> {
    if let Some(live) = objects.seen.get(&desired.key) {
        return Ok(Cow::Owned(desired.over(live)));
    }
    if !desired.may_be_found() {
        return Ok(Cow::Borrowed(&desired.object));
    }
    let live = dynamic::metadata(client, &desired.key).await?;
    Ok(match live {
        Some(live) => Cow::Owned(desired.over(&live)),
        None => Cow::Borrowed(&desired.object),
    })
}

/// Deletes what is there still, as it was seen.
async fn delete(context: &Context, objects: &Objects, keys: &[Key]) -> Result<bool, ExecuteError> {
    let mut changed = false;
    for key in keys {
        if !context.memory().may(key, &Asked::Delete, Instant::now()) {
            continue;
        }
        let uid = uid(objects, key);
        let params = uid
            .as_deref()
            .map_or_else(DeleteParams::background, exactly);
        let result = dynamic::delete(&context.shell.client, key, &params).await;
        match answer(result, "delete an object of the storage")? {
            Answer::Done(()) => {
                tracing::info!(%key, "deleted");
                context.memory().deleted(key);
                changed = true;
            }
            // What is gone makes room for the next.
            Answer::NotYet(code) => changed |= code == 404,
            Answer::Refused(code, message) => {
                tracing::warn!(%key, code, %message, "not deleted");
                let (mut memory, now) = (context.memory(), Instant::now());
                changed |= memory.refuse(key, Asked::Delete, (code, message), now);
            }
        }
    }
    Ok(changed)
}

/// Tells Rook what becomes of the data of the CephCluster that was seen.
async fn tell(context: &Context, objects: &Objects, mut change: Value) -> Result<(), ExecuteError> {
    let key = cluster_key();
    change["metadata"]["uid"] = uid(objects, &key).into();
    let what = "tell Rook what becomes of the data";
    dynamic::merge(&context.shell.client, &key, &change)
        .await
        .map_err(|source| ExecuteError::Write { what, source })
}

fn uid(objects: &Objects, key: &Key) -> Option<String> {
    let object = objects.seen.get(key)?;
    object["metadata"]["uid"].as_str().map(str::to_owned)
}

/// What an answer comes to; an error where the API server cannot be asked now.
fn answer<T>(result: Result<T, KubeError>, what: &'static str) -> Result<Answer<T>, ExecuteError> {
    match result {
        Ok(value) => Ok(Answer::Done(value)),
        Err(KubeError::Api(status)) => match status.code {
            code @ (404 | 409) => Ok(Answer::NotYet(code)),
            429 | 503 | 504 => {
                let source = KubeError::Api(status);
                Err(ExecuteError::Write { what, source })
            }
            code => Ok(Answer::Refused(code, status.message.clone())),
        },
        Err(source) => Err(ExecuteError::Write { what, source }),
    }
}
