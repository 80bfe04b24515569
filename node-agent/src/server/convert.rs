//! The protocol's types from and to the agent's own.
//!
//! Invariant: what comes in is checked here, wholly; what is inside needs no
//! second look.

use hypercloud_proto::agent::v1 as proto;
use tonic::Status;

use crate::job::board;
use crate::job::spec::{CopySpec, ImportSpec, JobId};
use crate::job::state::{ExportedObject, Failure, Phase, Progress};
use crate::node::Node;
use crate::source::{Access, Checksum, Facts, Format, Packing};
use crate::volume::{PodUid, PodVolume, VolumeMode, VolumeName};

mod device;
mod export;
mod source;

pub(super) use device::{cleaned, device, look, meant};
pub(super) use export::{export_spec, object, validity};
pub(super) use source::source;

pub(super) fn job_id(text: &str) -> Result<JobId, Status> {
    JobId::parse(text).map_err(invalid)
}

pub(super) fn import_spec(spec: proto::ImportSpec) -> Result<(ImportSpec, Access), Status> {
    let format = format_in(spec.format)?;
    let (source, access) =
        source(spec.source).map_err(|e| invalid(crate::job::drive::chain(&e)))?;
    let volume = volume_in(spec.volume, "volume")?;
    let checksum = spec.checksum.as_deref().map(str::parse::<Checksum>);
    let spec = ImportSpec {
        source,
        volume,
        expected: spec.expected.map(facts_in).transpose()?,
        checksum: checksum.transpose().map_err(invalid)?,
        format,
        preallocation: spec.preallocation,
        needs_access: !access.is_plain(),
    };
    Ok((spec, access))
}

pub(super) fn copy_spec(spec: proto::CopySpec) -> Result<CopySpec, Status> {
    let source = volume_in(spec.source, "source volume")?;
    let target = volume_in(spec.target, "target volume")?;
    if source.volume_name == target.volume_name {
        return Err(invalid(format!(
            "the source and the target are the same volume, {}: name two",
            target.volume_name
        )));
    }
    if source.pod_uid != target.pod_uid {
        return Err(invalid(format!(
            "the source is held by pod {} and the target by pod {}: one pod has to hold both",
            source.pod_uid, target.pod_uid
        )));
    }
    Ok(CopySpec {
        source,
        target,
        only_differences: spec.only_differences,
    })
}

/// A volume of the request, which calls it `what`.
fn volume_in(volume: Option<proto::PodVolume>, what: &str) -> Result<PodVolume, Status> {
    let volume = volume.ok_or_else(|| invalid(format!("the job names no {what}")))?;
    let mode = match volume.mode() {
        proto::VolumeMode::Block => VolumeMode::Block,
        proto::VolumeMode::Filesystem => VolumeMode::Filesystem,
        proto::VolumeMode::Unspecified => {
            return Err(invalid(format!("the {what} has no mode")));
        }
    };
    Ok(PodVolume {
        pod_uid: PodUid::parse(&volume.pod_uid).map_err(invalid)?,
        volume_name: VolumeName::parse(&volume.volume_name).map_err(invalid)?,
        mode,
    })
}

/// A format, where one is specified.
fn format_in(format: i32) -> Result<Option<Format>, Status> {
    match proto::ImageFormat::try_from(format) {
        Ok(proto::ImageFormat::Unspecified) => Ok(None),
        Ok(proto::ImageFormat::Raw) => Ok(Some(Format::Raw)),
        Ok(proto::ImageFormat::Qcow2) => Ok(Some(Format::Qcow2)),
        Err(_) => Err(invalid("the format is not one that this agent knows")),
    }
}

fn facts_in(facts: proto::SourceFacts) -> Result<Facts, Status> {
    let format =
        format_in(facts.format)?.ok_or_else(|| invalid("the expected facts name no format"))?;
    let packing = match proto::Packing::try_from(facts.packing) {
        Ok(proto::Packing::Unspecified) => None,
        Ok(proto::Packing::Gzip) => Some(Packing::Gzip),
        Ok(proto::Packing::Xz) => Some(Packing::Xz),
        Ok(proto::Packing::Zstd) => Some(Packing::Zstd),
        Err(_) => return Err(invalid("the expected facts name no packing")),
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
        packing,
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
    let packing = match facts.packing {
        None => proto::Packing::Unspecified,
        Some(Packing::Gzip) => proto::Packing::Gzip,
        Some(Packing::Xz) => proto::Packing::Xz,
        Some(Packing::Zstd) => proto::Packing::Zstd,
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
        packing: packing.into(),
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
        awaiting_access: status.awaiting_access,
        digest: status.digest.map(|digest| digest.to_string()),
        upload_id: status.upload,
        object: status.object.map(exported),
    }
}

fn exported(object: ExportedObject) -> proto::ExportedObject {
    let ExportedObject {
        size,
        virtual_size,
        etag,
        checksum,
        address,
    } = object;
    proto::ExportedObject {
        size,
        virtual_size,
        etag,
        checksum,
        address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import() -> proto::ImportSpec {
        let kind = proto::source::Kind::Http(proto::HttpSource {
            url: "http://h/i".into(),
            ..proto::HttpSource::default()
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
                virtual_size: Some(512),
                source_size: Some(9),
                validator: None,
                ranges: true,
                packing: proto::Packing::Zstd.into(),
            }),
            checksum: Some(format!("sha256:{}", "0a".repeat(32))),
            format: proto::ImageFormat::Qcow2.into(),
            preallocation: true,
        }
    }

    #[test]
    fn a_whole_request_is_understood() {
        let (spec, access) = import_spec(import()).unwrap();
        assert_eq!(spec.volume.mode, VolumeMode::Block);
        assert_eq!(
            spec.checksum.unwrap().to_string(),
            import().checksum.unwrap()
        );
        assert_eq!(spec.format, Some(Format::Qcow2));
        assert!(spec.preallocation && !spec.needs_access && access.is_plain());
        assert_eq!(facts(spec.expected.unwrap()), import().expected.unwrap());
        let bare = proto::ImportSpec {
            expected: None,
            format: 0,
            checksum: None,
            ..import()
        };
        let (bare, _) = import_spec(bare).unwrap();
        assert_eq!(
            (bare.expected, bare.format, bare.checksum),
            (None, None, None)
        );
    }

    #[test]
    fn every_gap_in_a_request_is_named() {
        type Spoil = fn(&mut proto::ImportSpec);
        let gaps: [(&str, Spoil); 10] = [
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
            ("no format", |s| s.expected.as_mut().unwrap().format = 0),
            ("no packing", |s| s.expected.as_mut().unwrap().packing = 77),
            ("format is not one", |s| s.format = 77),
            ("hexadecimal digits", |s| {
                s.checksum = Some("sha256:0a".into())
            }),
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

    fn copy() -> proto::CopySpec {
        let volume = |name: &str, mode: proto::VolumeMode| proto::PodVolume {
            pod_uid: "u-1".into(),
            volume_name: name.into(),
            mode: mode.into(),
        };
        proto::CopySpec {
            source: Some(volume("pvc-1", proto::VolumeMode::Block)),
            target: Some(volume("pvc-2", proto::VolumeMode::Filesystem)),
            only_differences: true,
        }
    }

    #[test]
    fn every_gap_in_a_copy_is_named() {
        let spec = copy_spec(copy()).unwrap();
        assert_eq!(spec.source.mode, VolumeMode::Block);
        assert_eq!(spec.target.mode, VolumeMode::Filesystem);
        assert!(spec.only_differences);
        type Spoil = fn(&mut proto::CopySpec);
        fn source(spec: &mut proto::CopySpec) -> &mut proto::PodVolume {
            spec.source.as_mut().unwrap()
        }
        fn target(spec: &mut proto::CopySpec) -> &mut proto::PodVolume {
            spec.target.as_mut().unwrap()
        }
        let gaps: [(&str, Spoil); 9] = [
            ("no source volume", |s| s.source = None),
            ("no target volume", |s| s.target = None),
            ("source volume has no mode", |s| source(s).mode = 0),
            ("target volume has no mode", |s| target(s).mode = 77),
            ("pod UID", |s| source(s).pod_uid = "../x".into()),
            ("PersistentVolume", |s| target(s).volume_name = "..".into()),
            ("PersistentVolume", |s| source(s).volume_name = "".into()),
            ("the same volume", |s| {
                target(s).volume_name = "pvc-1".into()
            }),
            ("one pod has to hold both", |s| {
                target(s).pod_uid = "u-2".into();
            }),
        ];
        for (said, spoil) in gaps {
            let mut spec = copy();
            spoil(&mut spec);
            let status = copy_spec(spec).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(
                status.message().contains(said),
                "{:?} of {said:?}",
                status.message()
            );
        }
    }
}
