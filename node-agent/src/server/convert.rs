//! The protocol's types from and to the agent's own.
//!
//! Invariant: what comes in is checked here, wholly; what is inside needs no
//! second look.

use hypercloud_proto::agent::v1 as proto;
use tonic::Status;

use crate::job::board;
use crate::job::spec::{ImportSpec, JobId};
use crate::job::state::{Failure, Phase, Progress};
use crate::node::Node;
use crate::source::{Facts, Format, HttpUrl, Source, UrlError};
use crate::volume::{PodUid, PodVolume, VolumeMode, VolumeName};

/// Why a source in a request is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error("the request names no source")]
    Missing,
    #[error(transparent)]
    Url(#[from] UrlError),
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Failure {
            reason: "InvalidSource".to_owned(),
            message: crate::job::drive::chain(&error),
            retryable: false,
        }
    }
}

pub(super) fn source(source: Option<proto::Source>) -> Result<Source, SourceError> {
    match source.and_then(|s| s.kind).ok_or(SourceError::Missing)? {
        proto::source::Kind::Http(http) => Ok(Source::Http(HttpUrl::parse(&http.url)?)),
    }
}

pub(super) fn job_id(text: &str) -> Result<JobId, Status> {
    JobId::parse(text).map_err(invalid)
}

pub(super) fn import_spec(spec: proto::ImportSpec) -> Result<ImportSpec, Status> {
    let volume = spec
        .volume
        .ok_or_else(|| invalid("the import names no volume"))?;
    let mode = match volume.mode() {
        proto::VolumeMode::Block => VolumeMode::Block,
        proto::VolumeMode::Filesystem => VolumeMode::Filesystem,
        proto::VolumeMode::Unspecified => return Err(invalid("the volume has no mode")),
    };
    Ok(ImportSpec {
        source: source(spec.source).map_err(|e| invalid(crate::job::drive::chain(&e)))?,
        volume: PodVolume {
            pod_uid: PodUid::parse(&volume.pod_uid).map_err(invalid)?,
            volume_name: VolumeName::parse(&volume.volume_name).map_err(invalid)?,
            mode,
        },
        expected: spec.expected.map(facts_in).transpose()?,
    })
}

fn facts_in(facts: proto::SourceFacts) -> Result<Facts, Status> {
    let format = match facts.format() {
        proto::ImageFormat::Raw => Format::Raw,
        proto::ImageFormat::Qcow2 => Format::Qcow2,
        proto::ImageFormat::Unspecified => {
            return Err(invalid("the expected facts name no format"));
        }
    };
    let proto::SourceFacts {
        virtual_size,
        source_size,
        validator,
        ranges,
        ..
    } = facts;
    Ok(Facts {
        format,
        virtual_size,
        source_size,
        validator,
        ranges,
    })
}

fn invalid(error: impl ToString) -> Status {
    Status::invalid_argument(error.to_string())
}

pub(super) fn facts(facts: Facts) -> proto::SourceFacts {
    let format = match facts.format {
        Format::Raw => proto::ImageFormat::Raw,
        Format::Qcow2 => proto::ImageFormat::Qcow2,
    };
    let Facts {
        virtual_size,
        source_size,
        validator,
        ranges,
        ..
    } = facts;
    proto::SourceFacts {
        format: format.into(),
        virtual_size,
        source_size,
        validator,
        ranges,
    }
}

pub(super) fn failure(failure: Failure) -> proto::Failure {
    let Failure {
        reason,
        message,
        retryable,
    } = failure;
    proto::Failure {
        reason,
        message,
        retryable,
    }
}

pub(super) fn node(node: &Node) -> proto::Node {
    let Node {
        name,
        version,
        boot_id,
    } = node.clone();
    proto::Node {
        name,
        version,
        boot_id,
    }
}

pub(super) fn job(status: board::Status) -> proto::Job {
    let state = match status.phase {
        Phase::Pending => proto::JobState::Pending,
        Phase::Preparing => proto::JobState::Preparing,
        Phase::Transferring => proto::JobState::Transferring,
        Phase::Verifying => proto::JobState::Verifying,
        Phase::Finalizing => proto::JobState::Finalizing,
        Phase::Succeeded => proto::JobState::Succeeded,
        Phase::Failed(_) => proto::JobState::Failed,
    };
    let failed = match status.phase {
        Phase::Failed(why) => Some(failure(why)),
        _ => None,
    };
    let Progress {
        total,
        done,
        received,
        written,
    } = status.progress;
    proto::Job {
        id: status.id.into(),
        state: state.into(),
        progress: Some(proto::Progress {
            total,
            done,
            received,
            written,
        }),
        failure: failed,
        facts: status.facts.map(facts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import() -> proto::ImportSpec {
        let kind = proto::source::Kind::Http(proto::HttpSource {
            url: "http://h/i".into(),
        });
        proto::ImportSpec {
            source: Some(proto::Source { kind: Some(kind) }),
            volume: Some(proto::PodVolume {
                pod_uid: "u-1".into(),
                volume_name: "pvc-1".into(),
                mode: proto::VolumeMode::Block.into(),
            }),
            expected: Some(proto::SourceFacts {
                format: proto::ImageFormat::Qcow2.into(),
                virtual_size: 512,
                source_size: Some(9),
                validator: None,
                ranges: true,
            }),
        }
    }

    #[test]
    fn a_whole_request_is_understood() {
        let spec = import_spec(import()).unwrap();
        assert_eq!(spec.volume.mode, VolumeMode::Block);
        assert_eq!(facts(spec.expected.unwrap()), import().expected.unwrap());
        let bare = proto::ImportSpec {
            expected: None,
            ..import()
        };
        assert_eq!(import_spec(bare).unwrap().expected, None);
    }

    #[test]
    fn every_gap_in_a_request_is_named() {
        type Spoil = fn(&mut proto::ImportSpec);
        let gaps: [(&str, Spoil); 7] = [
            ("no source", |s| s.source = None),
            ("no source", |s| {
                s.source = Some(proto::Source { kind: None })
            }),
            ("no volume", |s| s.volume = None),
            ("no mode", |s| s.volume.as_mut().unwrap().mode = 0),
            ("pod UID", |s| {
                s.volume.as_mut().unwrap().pod_uid = "../x".into()
            }),
            ("PersistentVolume", |s| {
                s.volume.as_mut().unwrap().volume_name = "..".into()
            }),
            ("no format", |s| s.expected.as_mut().unwrap().format = 77),
        ];
        for (said, spoil) in gaps {
            let mut spec = import();
            spoil(&mut spec);
            let status = import_spec(spec).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(
                status.message().contains(said),
                "{:?} of {said:?}",
                status.message()
            );
        }
    }
}
