//! Between the protocol's generated types and the coordinator's own.
//!
//! Invariant: no generated type leaves this module and [`pool`](super::pool).

use hypercloud_proto::agent::v1 as proto;

use super::{Facts, Failure, ImageFormat, ImportJob, Job, JobState, Probed, Progress, VolumeKind};

/// Something that the protocol asks for is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing(pub &'static str);

/// An HTTP source.
pub(super) fn source(url: &str) -> proto::Source {
    proto::Source {
        kind: Some(proto::source::Kind::Http(proto::HttpSource {
            url: url.to_owned(),
        })),
    }
}

/// The request that starts `job`.
pub(super) fn start_request(job: &ImportJob) -> proto::StartJobRequest {
    let mode = match job.volume_kind {
        VolumeKind::Block => proto::VolumeMode::Block,
        VolumeKind::Filesystem => proto::VolumeMode::Filesystem,
    };
    proto::StartJobRequest {
        job_id: job.id.clone(),
        spec: Some(proto::start_job_request::Spec::Import(proto::ImportSpec {
            source: Some(source(&job.url)),
            volume: Some(proto::PodVolume {
                pod_uid: job.pod_uid.clone(),
                volume_name: job.volume_name.clone(),
                mode: mode.into(),
            }),
            expected: Some(facts_to(&job.expected)),
        })),
    }
}

fn facts_to(facts: &Facts) -> proto::SourceFacts {
    let format = match facts.format {
        ImageFormat::Raw => proto::ImageFormat::Raw,
        ImageFormat::Qcow2 => proto::ImageFormat::Qcow2,
    };
    proto::SourceFacts {
        format: format.into(),
        virtual_size: facts.virtual_size,
        source_size: facts.source_size,
        validator: facts.validator.clone(),
        ranges: facts.ranges,
    }
}

fn facts_from(facts: proto::SourceFacts) -> Result<Facts, Missing> {
    let format = match facts.format() {
        proto::ImageFormat::Raw => ImageFormat::Raw,
        proto::ImageFormat::Qcow2 => ImageFormat::Qcow2,
        proto::ImageFormat::Unspecified => return Err(Missing("a known format")),
    };
    Ok(Facts {
        format,
        virtual_size: facts.virtual_size,
        source_size: facts.source_size,
        validator: facts.validator,
        ranges: facts.ranges,
    })
}

fn failure_from(failure: proto::Failure) -> Failure {
    Failure {
        reason: failure.reason,
        message: failure.message,
        retryable: failure.retryable,
    }
}

/// How a probe ended.
pub(super) fn probed(response: proto::ProbeSourceResponse) -> Result<Probed, Missing> {
    match response.result {
        Some(proto::probe_source_response::Result::Facts(facts)) => Ok(Ok(facts_from(facts)?)),
        Some(proto::probe_source_response::Result::Failure(failure)) => {
            Ok(Err(failure_from(failure)))
        }
        None => Err(Missing("a result")),
    }
}

/// A job as the agent reports it.
pub(super) fn job(job: proto::Job) -> Result<Job, Missing> {
    let state = match job.state() {
        proto::JobState::Unspecified => return Err(Missing("a known state")),
        proto::JobState::Pending => JobState::Pending,
        proto::JobState::Preparing => JobState::Preparing,
        proto::JobState::Transferring => JobState::Transferring,
        proto::JobState::Verifying => JobState::Verifying,
        proto::JobState::Finalizing => JobState::Finalizing,
        proto::JobState::Succeeded => JobState::Succeeded,
        proto::JobState::Failed => {
            JobState::Failed(job.failure.map(failure_from).ok_or(Missing("a failure"))?)
        }
    };
    let progress = job.progress.unwrap_or_default();
    Ok(Job {
        id: job.id,
        state,
        progress: Progress {
            total: progress.total,
            done: progress.done,
            received: progress.received,
            written: progress.written,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_a_round_trip() {
        let facts = Facts {
            format: ImageFormat::Qcow2,
            virtual_size: 7,
            source_size: Some(5),
            validator: Some("\"etag\"".into()),
            ranges: true,
        };
        assert_eq!(facts_from(facts_to(&facts)), Ok(facts));
    }

    #[test]
    fn what_is_missing_is_named() {
        let none = proto::ProbeSourceResponse { result: None };
        assert_eq!(probed(none), Err(Missing("a result")));
        assert_eq!(job(proto::Job::default()), Err(Missing("a known state")));
        let failed = proto::Job {
            state: proto::JobState::Failed.into(),
            ..proto::Job::default()
        };
        assert_eq!(job(failed), Err(Missing("a failure")));
    }
}
