//! One reconcile of the storage: the shell around observe, decide and execute.
//! It moves values between them and decides nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hypercloud_api::{HyperCloudStorage, HyperCloudStorageStatus, names};
use hypercloud_storage::decide::{blind, decide};
use hypercloud_storage::manifest::source::Wanted;
use k8s_openapi::jiff::Timestamp;
use kube::runtime::controller::Action as Requeue;
use kube::{Api, Error as KubeError, Resource};
use tokio::task::JoinHandle;

use super::ceph::heard::Heard;
use super::execute::execute;
use super::fetch::Library;
use super::look::Definitions;
use super::memory::Memory;
use super::notices::notices;
use super::observe::observe;
use super::status;
use super::watches::Watches;
use crate::again::Again;
use crate::shell::Shell;
use crate::shell::error::{ObserveError, ReconcileError};
use crate::shell::report::{self, Notice};
use crate::shell::requeue::{Round, rounds};
use crate::shell::write::{Finalizer, set_finalizer, set_status};

/// How long a look may take.
const LOOK: Duration = Duration::from_secs(60);
/// How long the cluster may not be seen before the status says so.
const BLIND: Duration = Duration::from_secs(15);

/// What reconciles of the storage share.
pub struct Context {
    /// What they share with the others.
    pub shell: Shell,
    /// The manifests.
    pub library: Library,
    /// Definitions as they were read last.
    pub definitions: Definitions,
    /// What asks for looks.
    pub watches: Arc<Watches>,
    /// What Ceph answered last.
    pub heard: Heard,
    memory: Mutex<Memory>,
    blind: Mutex<Option<Instant>>,
    fetching: Mutex<Option<JoinHandle<()>>>,
}

impl Context {
    /// The beginning; `namespace` is the coordinator's.
    #[must_use]
    pub fn new(shell: Shell, namespace: &str) -> Self {
        Self {
            library: Library::new(shell.client.clone(), namespace),
            shell,
            definitions: Definitions::default(),
            watches: Arc::default(),
            heard: Heard::default(),
            memory: Mutex::default(),
            blind: Mutex::default(),
            fetching: Mutex::default(),
        }
    }

    /// What is remembered between two looks.
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of everything that is kept for a storage: there is none any
    /// more.
    pub async fn forget(&self) {
        self.watches.keep(&self.shell.client, &[]);
        self.library.clear().await;
        *self.memory() = Memory::default();
        self.heard.forget();
        self.shell.metrics.set_storage(None);
    }

    /// Has files fetched, unless some are already, and looks again then.
    fn fetch(&self, resource: &HyperCloudStorage, wanted: Vec<Wanted>) {
        let mut fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        let is_busy = fetching.as_ref().is_some_and(|task| !task.is_finished());
        if wanted.is_empty() || is_busy {
            return;
        }
        let (library, watches) = (self.library.clone(), Arc::clone(&self.watches));
        let spec = resource.spec.clone();
        *fetching = Some(tokio::spawn(async move {
            if library.fetch(&spec, &wanted).await {
                watches.kick();
            }
        }));
    }

    /// Since when the cluster cannot be seen.
    fn blind_since(&self, now: Option<Instant>) -> Option<Instant> {
        let mut since = self.blind.lock().unwrap_or_else(PoisonError::into_inner);
        *since = now.map(|now| since.unwrap_or(now));
        *since
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let fetching = self.fetching.get_mut();
        if let Some(task) = fetching.unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }
}

/// Takes the storage `name` as far as it goes now.
pub async fn reconcile(context: &Context, name: &str) -> Result<Requeue, ReconcileError> {
    rounds(|| round(context, name)).await
}

async fn round(context: &Context, name: &str) -> Result<Option<Round>, ReconcileError> {
    let shell = &context.shell;
    let storages: Api<HyperCloudStorage> = Api::all(shell.client.clone());
    let found = storages.get_opt(name).await.map_err(|source| {
        let what = "the HyperCloudStorage";
        ObserveError::Read { what, source }
    })?;
    let held = |resource: &HyperCloudStorage| {
        let mut finalizers = resource.metadata.finalizers.iter().flatten();
        finalizers.any(|finalizer| finalizer == names::FINALIZER)
    };
    let going = |resource: &HyperCloudStorage| resource.metadata.deletion_timestamp.is_some();
    let found = found.filter(|resource| held(resource) || !going(resource));
    let Some(resource) = found else {
        context.forget().await;
        return Ok(None);
    };
    let round = |again| {
        let uid = resource.metadata.uid.clone().unwrap_or_default();
        Ok(Some(Round { again, uid }))
    };
    if !held(&resource) {
        set_finalizer(&shell.client, &resource, Finalizer::Present).await?;
        return round(Again::Now);
    }
    let looked = tokio::time::timeout(LOOK, observe(context, &resource)).await;
    let looked = match looked.unwrap_or_else(|_| Err(silent())) {
        Ok(looked) => looked,
        Err(error) => {
            unseen(context, &resource, &error).await?;
            return Err(error.into());
        }
    };
    context.blind_since(None);
    let refused = context.memory().refusals();
    let mut decision = decide(&looked.view(&resource, &refused, Timestamp::now()));
    let goes_on = write(context, &resource, &decision.status).await?;
    let told = context.memory().untold(&decision.notices);
    for notice in told {
        let notice = Notice {
            warning: false,
            reason: notice.reason.to_owned(),
            message: notice.message,
        };
        publish(context, &resource, "Change", notice).await;
    }
    context.watches.keep(&shell.client, &looked.objects.kinds);
    context.fetch(&resource, std::mem::take(&mut decision.fetch));
    let changed = execute(context, &resource, &looked, &decision).await?;
    round(Again::After(match goes_on || changed {
        true => status::AT_ONCE,
        false => status::again(&decision.status),
    }))
}

/// Writes the status, and tells of what changed; whether the next decision
/// builds on it.
async fn write(
    context: &Context,
    resource: &HyperCloudStorage,
    new: &HyperCloudStorageStatus,
) -> Result<bool, ReconcileError> {
    let shell = &context.shell;
    shell.metrics.set_storage(Some(new));
    let old = resource.status.as_ref();
    if old == Some(new) {
        return Ok(false);
    }
    match set_status(&shell.client, resource, new).await {
        Ok(()) => {}
        Err(KubeError::Api(status)) if status.is_not_found() => return Ok(false),
        Err(error) => return Err(ReconcileError::Status(error)),
    }
    shell.metrics.status_written();
    for (about, notice) in notices(old, new) {
        publish(context, resource, &about, notice).await;
    }
    Ok(status::goes_on(old, new))
}

async fn publish(context: &Context, resource: &HyperCloudStorage, about: &str, notice: Notice) {
    let shell = &context.shell;
    shell.metrics.notice(&notice.reason);
    let reference = resource.object_ref(&());
    report::publish(&shell.recorder, &reference, notice, about).await;
}

/// A look that has no end.
fn silent() -> ObserveError {
    let what = "all of the storage";
    let source = std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        format!("no answer for {} s", LOOK.as_secs()),
    );
    let source = KubeError::Service(source.into());
    ObserveError::Read { what, source }
}

/// Says that the cluster cannot be looked at: at once where that is forbidden,
/// else where it lasts.
async fn unseen(
    context: &Context,
    resource: &HyperCloudStorage,
    error: &ObserveError,
) -> Result<(), ReconcileError> {
    let ObserveError::Read { what, source } = error;
    let now = Instant::now();
    let since = context.blind_since(Some(now)).unwrap_or(now);
    let (code, said) = match source {
        KubeError::Api(answer) => (answer.code, answer.message.clone()),
        other => (0, other.to_string()),
    };
    let (reason, message) = match code {
        403 => (
            "ObserveForbidden",
            format!(
                "the coordinator may not read {what}: {said}; give it the rights of coordinator-storage-rbac.yaml"
            ),
        ),
        _ if now.saturating_duration_since(since) < BLIND => return Ok(()),
        _ => (
            "ObserveFailed",
            format!("the API server does not tell {what}: {said}; it is tried again"),
        ),
    };
    let new = blind(resource, reason, message, Timestamp::now());
    write(context, resource, &new).await?;
    Ok(())
}
