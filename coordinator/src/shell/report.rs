//! Telling of what was concluded: the status, and the Events that its change
//! is worth (client required).

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Error as KubeError;
use kube::runtime::events::{Event, EventType, Recorder};
use serde::Serialize;

use super::Shell;
use super::error::ReconcileError;
use super::write::{Owned, set_status};

/// Longest note that the API takes in an Event, in bytes.
const MAX_NOTE: usize = 1024;

/// An Event to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether people should worry.
    pub warning: bool,
    /// One CamelCase word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// A status as it is to be.
#[derive(Clone, Debug)]
pub struct Report<'a, S> {
    /// The status as it was seen.
    pub old: Option<&'a S>,
    /// The status to write.
    pub new: &'a S,
    /// What the change is worth telling.
    pub notices: Vec<Notice>,
    /// Number of the present try.
    pub attempt: i64,
}

/// Writes the status and then publishes the Events; neither where nothing
/// changed.
pub async fn report<K, S>(
    shell: &Shell,
    object: &K,
    report: Report<'_, S>,
) -> Result<(), ReconcileError>
where
    K: Owned,
    S: Serialize + PartialEq + Default,
{
    let Report {
        old,
        new,
        notices,
        attempt,
    } = report;
    if old == Some(new) || (old.is_none() && *new == S::default()) {
        return Ok(());
    }
    match set_status(&shell.client, object, new).await {
        Ok(()) => {}
        // Gone, for example with its finalizer just taken off.
        Err(KubeError::Api(status)) if status.is_not_found() => return Ok(()),
        Err(error) => return Err(ReconcileError::Status(error)),
    }
    shell.metrics.status_written();
    let reference = object.object_ref(&());
    for notice in notices {
        shell.metrics.notice(&notice.reason);
        publish(
            &shell.recorder,
            &reference,
            notice,
            &format!("Try{attempt}"),
        )
        .await;
    }
    Ok(())
}

/// Publishes an Event on `object`. One that is lost is not worth a failed
/// reconcile. Events alike but for their note are counted as one: those of
/// another `action` are not alike.
pub async fn publish(recorder: &Recorder, object: &ObjectReference, notice: Notice, action: &str) {
    let Notice {
        warning,
        reason,
        mut message,
    } = notice;
    if message.len() > MAX_NOTE {
        let cut = (0..=MAX_NOTE).rev().find(|i| message.is_char_boundary(*i));
        message.truncate(cut.unwrap_or(0));
    }
    if warning {
        tracing::warn!(%reason, note = %message, "resource changed");
    } else {
        tracing::info!(%reason, note = %message, "resource changed");
    }
    let event = Event {
        type_: if warning {
            EventType::Warning
        } else {
            EventType::Normal
        },
        action: action.to_owned(),
        reason,
        note: Some(message),
        secondary: None,
    };
    if let Err(error) = recorder.publish(&event, object).await {
        tracing::debug!(%error, "event not published");
    }
}
