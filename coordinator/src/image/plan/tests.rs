//! Plan tables: one world each, and the whole plan for it.

mod remains;
mod source;
mod transfer;

use hypercloud_api::conditions::{ConditionStatus, ConditionUpdate, set};
use hypercloud_api::{
    DeclaredFormat, ImageSharing, ImageSource, RetryStatus, SecretReference, SourceStatus,
    StoredObject, TransferStatus, VirtualMachineImage, VirtualMachineImageSpec,
    VirtualMachineImageStatus, VolumeMode,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::observation::*;
use super::super::verdict::TryFailure;
use super::*;
use crate::access::wanted::{WantedPlace, WantedSource};
use crate::agents::source::SourceUrl;
use crate::agents::{AgentsSeen, Failure, ImportJob, Job, JobSeen, JobState, VolumeKind};
use crate::holder::{HolderSeen, HolderState, Problem};

const GIB: u64 = 1 << 30;
const URL: &str = "http://example.com/disk.qcow2";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn decide(seen: &Observation, second: i64) -> Plan {
    let policy = Policy {
        overhead: Overhead::DEFAULT,
        store: DefaultStore::default(),
    };
    plan(seen, &policy, at(second))
}

/// A new image on a cluster with two agents.
fn fresh() -> Observation {
    let source = ImageSource {
        http: Some(URL.into()),
        ..ImageSource::default()
    };
    let spec = VirtualMachineImageSpec {
        storage_class_name: Some("fast".into()),
        source,
        pvc: None,
        preallocation: None,
        shared_with: None,
    };
    let mut image = VirtualMachineImage::new("ubuntu", spec);
    image.metadata.uid = Some("uid".into());
    image.metadata.finalizers = Some(vec![names::FINALIZER.into()]);
    image.status = Some(VirtualMachineImageStatus {
        phase: Some(ImagePhase::Pending),
        ..VirtualMachineImageStatus::default()
    });
    Observation {
        image,
        claim: None,
        holders: vec![],
        clones: vec![],
        storage_class: StorageClassSeen::Found,
        agents: AgentsSeen {
            synced: vec!["n1".into(), "n2".into()],
            ..AgentsSeen::default()
        },
    }
}

/// The source of every image here.
fn source() -> WantedSource {
    WantedSource {
        place: WantedPlace::Http {
            url: SourceUrl::new(URL),
            headers: vec![],
            secret_headers: vec![],
        },
        secret: None,
        ca: None,
    }
}

/// The image names a Secret that lets in.
fn guarded(mut seen: Observation) -> Observation {
    let name = "login".into();
    seen.image.spec.source.secret_ref = Some(SecretReference { name });
    seen
}

fn status(seen: &mut Observation) -> &mut VirtualMachineImageStatus {
    seen.image.status.get_or_insert_default()
}

fn facts() -> Facts {
    Facts {
        format: ImageFormat::Qcow2,
        packing: None,
        virtual_size: Some(10 * GIB),
        source_size: None,
        validator: Some("\"v1\"".into()),
        ranges: true,
    }
}

/// The source was looked at.
fn probed() -> Observation {
    let mut seen = fresh();
    let update = ConditionUpdate {
        type_: super::super::SOURCE_VERIFIED,
        status: ConditionStatus::True,
        reason: "Probed".into(),
        message: String::new(),
    };
    let status = status(&mut seen);
    set(&mut status.conditions, update, 1, &Time(at(0)));
    status.source = Some(SourceStatus {
        format: "qcow2".into(),
        virtual_size: Some(10 * GIB as i64),
        validator: Some("\"v1\"".into()),
        ranges: Some(true),
        ..SourceStatus::default()
    });
    seen
}

/// The claim is there and bound.
fn claimed() -> Observation {
    let mut seen = probed();
    seen.claim = Some(ClaimSeen {
        uid: "claim".into(),
        ours: true,
        since: None,
        deleting_since: None,
        lost: false,
        volume_name: Some("pv".into()),
        requested: 10 * GIB,
        many_nodes: false,
        problem: None,
    });
    seen
}

fn holder(name: &str, state: HolderState) -> HolderSeen {
    HolderSeen {
        name: name.into(),
        uid: format!("{name}-uid"),
        since: None,
        deleting_since: None,
        node: Some("n2".into()),
        state,
    }
}

/// The holder holds the volume on node n2.
fn held() -> Observation {
    let mut seen = claimed();
    let name = seen.holder_name();
    seen.holders = vec![holder(&name, HolderState::Holding)];
    seen
}

/// The transfer was written down.
fn chosen() -> Observation {
    let mut seen = held();
    let transfer = TransferStatus {
        job_id: seen.job_id(),
        node_name: "n2".into(),
        holder_uid: Some(seen.holders[0].uid.clone()),
        ..TransferStatus::default()
    };
    status(&mut seen).transfer = Some(transfer);
    seen
}

/// The agent reports the job in this state.
fn running(state: JobState) -> Observation {
    let mut seen = chosen();
    seen.agents.jobs = vec![job_on("n2", &seen.job_id(), state)];
    seen
}

fn job_on(node: &str, id: &str, state: JobState) -> JobSeen {
    JobSeen {
        node: node.into(),
        job: Job {
            id: id.into(),
            state,
            ..Job::default()
        },
    }
}

/// The image is ready.
fn ready() -> Observation {
    let mut seen = chosen();
    seen.holders.clear();
    let status = status(&mut seen);
    status.phase = Some(ImagePhase::Ready);
    if let Some(transfer) = &mut status.transfer {
        transfer.completion_time = Some(Time(at(0)));
    }
    seen
}

fn deleted(mut seen: Observation) -> Observation {
    seen.image.metadata.deletion_timestamp = Some(Time(at(0)));
    seen
}

fn lost_agent(mut seen: Observation) -> Observation {
    seen.agents.synced = vec!["n1".into()];
    seen.agents.away = [("n2".to_owned(), at(0))].into();
    seen
}

/// What a plan waits for, by its reason.
fn reason(plan: &Plan) -> &str {
    match &plan.verdict {
        Verdict::Waiting { reason, .. } | Verdict::Failed { reason, .. } => reason,
        Verdict::TryFailed(failure) => &failure.reason,
        other => panic!("no reason in {other:?}"),
    }
}

fn cancel(node: &str, job_id: &str) -> Action {
    Action::CancelJob {
        node: node.into(),
        job_id: job_id.into(),
    }
}

fn delete_holder(name: &str) -> Action {
    Action::DeleteHolder {
        name: name.into(),
        uid: format!("{name}-uid"),
    }
}

fn delete_claim() -> Action {
    Action::DeleteClaim {
        uid: "claim".into(),
    }
}
