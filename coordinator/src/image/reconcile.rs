//! One reconcile of one image: the shell around observe, plan, execute and
//! status. It moves values between them and decides nothing.

use std::sync::Arc;
use std::time::Duration;

use hypercloud_api::{GROUP, VERSION, VirtualMachineImage, VirtualMachineImageStatus, names};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::Action as Requeue;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Client, Error as KubeError, Resource};
use serde_json::json;

use super::error::ReconcileError;
use super::execute::{Hands, execute};
use super::notices::{Notice, notices};
use super::observation::Observation;
use super::observe::observe;
use super::plan::{Policy, plan};
use super::status;
use super::verdict::{Again, Verdict};
use crate::agents::Agents;
use crate::backoff;
use crate::holder::HolderTemplate;
use crate::metrics::Metrics;

/// Plans that one reconcile carries out before it lets others have a turn.
const ROUNDS: u32 = 8;
/// The slow look that guards against a lost event.
const GUARD: Duration = Duration::from_secs(600);
/// Longest note that the API takes in an Event, in bytes.
const MAX_NOTE: usize = 1024;

/// What reconciles share.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// The agents.
    pub agents: Arc<dyn Agents>,
    /// Publishes Events.
    pub recorder: Recorder,
    /// How holders are made.
    pub template: HolderTemplate,
    /// What the operator set for all images.
    pub policy: Policy,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// Takes the image `namespace/name` as far as it goes now.
pub async fn reconcile(
    context: &Context,
    namespace: &str,
    name: &str,
) -> Result<Requeue, ReconcileError> {
    let agents = context.agents.as_ref();
    for _ in 0..ROUNDS {
        let Some(seen) = observe(&context.client, agents, namespace, name).await? else {
            return Ok(Requeue::await_change());
        };
        let plan = plan(&seen, &context.policy, Timestamp::now());
        let hands = Hands {
            client: &context.client,
            agents,
            template: &context.template,
            scope: context.policy.scope(&seen),
        };
        let outcome = execute(hands, &seen, &plan).await?;
        report(context, &seen, &outcome.verdict).await?;
        match outcome.again {
            Again::Now => {}
            Again::After(delay) => return Ok(after(delay, seen.uid())),
            Again::OnChange => return Ok(after(GUARD, seen.uid())),
        }
    }
    Ok(Requeue::requeue(Duration::ZERO))
}

/// `delay`, or up to a tenth more: not everything is looked at together.
fn after(delay: Duration, uid: &str) -> Requeue {
    Requeue::requeue(delay + (delay / 10).mul_f64(backoff::fraction(uid, 0)))
}

/// Writes the status that follows from `verdict`, and the Events that its
/// change is worth; neither where nothing changed.
async fn report(
    context: &Context,
    seen: &Observation,
    verdict: &Verdict,
) -> Result<(), ReconcileError> {
    let image = &seen.image;
    let has_claim = seen.own_claim().is_some();
    let next = status::next(image, verdict, has_claim, Timestamp::now());
    if image.status.as_ref() == Some(&next)
        || (image.status.is_none() && next == VirtualMachineImageStatus::default())
    {
        return Ok(());
    }
    match write(&context.client, image, &next).await {
        Ok(()) => {}
        // Gone, for example with its finalizer just taken off.
        Err(KubeError::Api(status)) if status.is_not_found() => return Ok(()),
        Err(error) => return Err(ReconcileError::Status(error)),
    }
    context.metrics.status_written();
    for notice in notices(image.status.as_ref(), &next) {
        context.metrics.notice(&notice.reason);
        let attempt = next.attempt.unwrap_or(0);
        publish(&context.recorder, image, notice, attempt).await;
    }
    Ok(())
}

/// Writes the status, provided that the image still is as it was seen.
async fn write(
    client: &Client,
    image: &VirtualMachineImage,
    status: &VirtualMachineImageStatus,
) -> Result<(), KubeError> {
    let meta = &image.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let name = meta.name.as_deref().unwrap_or_default();
    let images: Api<VirtualMachineImage> = Api::namespaced(client.clone(), namespace);
    let object = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": VirtualMachineImage::kind(&()),
        "metadata": {
            "name": name,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        },
        "status": status,
    });
    let manager = PatchParams::apply(names::FIELD_MANAGER).force();
    images
        .patch_status(name, &manager, &Patch::Apply(&object))
        .await?;
    Ok(())
}

/// Publishes an Event. One that is lost is not worth a failed reconcile.
async fn publish(recorder: &Recorder, image: &VirtualMachineImage, notice: Notice, attempt: i64) {
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
        tracing::warn!(%reason, note = %message, "image changed");
    } else {
        tracing::info!(%reason, note = %message, "image changed");
    }
    let event = Event {
        type_: if warning {
            EventType::Warning
        } else {
            EventType::Normal
        },
        // Events alike but for their note are counted as one: those of
        // another try are not alike.
        action: format!("Try{attempt}"),
        reason,
        note: Some(message),
        secondary: None,
    };
    if let Err(error) = recorder.publish(&event, &image.object_ref(&())).await {
        tracing::debug!(%error, "event not published");
    }
}
