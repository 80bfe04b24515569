//! Between the protocol's generated types and the coordinator's own.
//!
//! Invariant: no generated type leaves this module and [`pool`](super::pool).

pub(super) mod devices;

use hypercloud_api::{ExportCompression, ExportFormat, names};
use hypercloud_proto::agent::v1 as proto;

use proto::stored_object::Credentials;
use secrecy::ExposeSecret;

use super::source::{ObjectPlace, Place, SignedAddress, Signing, Source, Stored};
use super::{
    CopyJob, ExportJob, ExportedObject, Facts, Failure, ImageFormat, ImportJob, Job, JobState,
    JobVolume, Packing, Probed, Progress, VolumeKind,
};

/// Something that the protocol asks for is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing(pub &'static str);

/// A source with what lets in there.
pub(super) fn source(source: &Source) -> proto::Source {
    let authorities = source.authorities.clone();
    let kind = match &source.place {
        Place::Http {
            url,
            basic,
            headers,
        } => proto::source::Kind::Http(proto::HttpSource {
            url: url.reveal().to_owned(),
            basic: basic.as_ref().map(|basic| proto::BasicCredentials {
                username: basic.username.expose_secret().to_owned(),
                password: basic.password.expose_secret().to_owned(),
            }),
            headers: headers
                .iter()
                .map(|(name, value)| proto::Header {
                    name: name.clone(),
                    value: value.expose_secret().to_owned(),
                })
                .collect(),
            authorities,
        }),
        Place::Object { object, signing } => {
            proto::source::Kind::ObjectStore(object_at(object, signing, authorities))
        }
    };
    proto::Source { kind: Some(kind) }
}

/// An object with what lets in at its store.
pub(super) fn stored(stored: &Stored) -> proto::StoredObject {
    object_at(&stored.place, &stored.signing, stored.authorities.clone())
}

fn object_at(
    place: &ObjectPlace,
    signing: &Signing,
    authorities: Option<String>,
) -> proto::StoredObject {
    proto::StoredObject {
        bucket: place.bucket.clone(),
        key: place.key.clone(),
        endpoint: place.endpoint.clone(),
        region: place.region.clone(),
        path_style: place.path_style,
        credentials: Some(credentials(signing)),
        authorities,
    }
}

fn credentials(signing: &Signing) -> Credentials {
    match signing {
        Signing::DefaultChain => Credentials::DefaultChain(proto::DefaultChain {}),
        Signing::Anonymous => Credentials::Anonymous(proto::Anonymous {}),
        Signing::Keys { id, key, token } => Credentials::Keys(proto::AccessKeys {
            access_key_id: id.expose_secret().to_owned(),
            secret_access_key: key.expose_secret().to_owned(),
            session_token: token.as_ref().map(|token| token.expose_secret().to_owned()),
        }),
    }
}

/// The request that starts `job`.
pub(super) fn start_request(job: &ImportJob, from: &Source) -> proto::StartJobRequest {
    proto::StartJobRequest {
        job_id: job.id.clone(),
        spec: Some(proto::start_job_request::Spec::Import(proto::ImportSpec {
            source: Some(source(from)),
            volume: Some(proto::PodVolume {
                pod_uid: job.pod_uid.clone(),
                volume_name: job.volume_name.clone(),
                mode: mode_to(job.volume_kind).into(),
            }),
            expected: Some(facts_to(&job.expected)),
            checksum: job.checksum.clone(),
            format: job
                .format
                .map_or(proto::ImageFormat::Unspecified, format_to)
                .into(),
            preallocation: job.preallocation,
        })),
    }
}

/// The request that starts the copy `job`.
pub(super) fn copy_request(job: &CopyJob) -> proto::StartJobRequest {
    let volume = |volume| volume_to(&job.pod_uid, volume);
    proto::StartJobRequest {
        job_id: job.id.clone(),
        spec: Some(proto::start_job_request::Spec::Copy(proto::CopySpec {
            source: Some(volume(&job.source)),
            target: Some(volume(&job.target)),
            only_differences: job.only_differences,
        })),
    }
}

/// The request that starts the export `job` to `object`.
pub(super) fn export_request(job: &ExportJob, object: &Stored) -> proto::StartJobRequest {
    let format = match job.format {
        ExportFormat::Qcow2 => proto::ImageFormat::Qcow2,
        ExportFormat::Raw => proto::ImageFormat::Raw,
    };
    let compression = match job.compression {
        ExportCompression::None => proto::Compression::None,
        ExportCompression::Zlib => proto::Compression::Zlib,
        ExportCompression::Zstd => proto::Compression::Zstd,
    };
    proto::StartJobRequest {
        job_id: job.id.clone(),
        spec: Some(proto::start_job_request::Spec::Export(proto::ExportSpec {
            volume: Some(volume_to(&job.pod_uid, &job.volume)),
            object: Some(stored(object)),
            format: format.into(),
            compression: compression.into(),
            overwrite: job.overwrite,
            digest: job.digest,
            // Of all tries.
            owner: names::parse_job_id(&job.id).map_or_else(String::new, |(uid, _)| uid.to_owned()),
        })),
    }
}

fn volume_to(pod_uid: &str, volume: &JobVolume) -> proto::PodVolume {
    proto::PodVolume {
        pod_uid: pod_uid.to_owned(),
        volume_name: volume.name.clone(),
        mode: mode_to(volume.kind).into(),
    }
}

fn mode_to(kind: VolumeKind) -> proto::VolumeMode {
    match kind {
        VolumeKind::Block => proto::VolumeMode::Block,
        VolumeKind::Filesystem => proto::VolumeMode::Filesystem,
    }
}

fn format_to(format: ImageFormat) -> proto::ImageFormat {
    match format {
        ImageFormat::Raw => proto::ImageFormat::Raw,
        ImageFormat::Qcow2 => proto::ImageFormat::Qcow2,
    }
}

fn facts_to(facts: &Facts) -> proto::SourceFacts {
    let packing = match facts.packing {
        None => proto::Packing::Unspecified,
        Some(Packing::Gzip) => proto::Packing::Gzip,
        Some(Packing::Xz) => proto::Packing::Xz,
        Some(Packing::Zstd) => proto::Packing::Zstd,
    };
    proto::SourceFacts {
        format: format_to(facts.format).into(),
        packing: packing.into(),
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
    let packing = match proto::Packing::try_from(facts.packing) {
        Ok(proto::Packing::Unspecified) => None,
        Ok(proto::Packing::Gzip) => Some(Packing::Gzip),
        Ok(proto::Packing::Xz) => Some(Packing::Xz),
        Ok(proto::Packing::Zstd) => Some(Packing::Zstd),
        Err(_) => return Err(Missing("a known packing")),
    };
    Ok(Facts {
        format,
        packing,
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

/// How the removal of an upload ended.
pub(super) fn discarded(response: proto::DiscardUploadResponse) -> Result<(), Failure> {
    response
        .failure
        .map_or(Ok(()), |failure| Err(failure_from(failure)))
}

/// How the signing of an address ended.
pub(super) fn presigned(
    response: proto::PresignObjectResponse,
) -> Result<Result<SignedAddress, Failure>, Missing> {
    match response.result {
        Some(proto::presign_object_response::Result::Url(url)) => Ok(Ok(SignedAddress::new(url))),
        Some(proto::presign_object_response::Result::Failure(failure)) => {
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
        awaiting_access: job.awaiting_access,
        digest: job.digest,
        upload_id: job.upload_id,
        object: job.object.map(|object| ExportedObject {
            size: object.size,
            virtual_size: object.virtual_size,
            etag: object.etag,
            checksum: object.checksum,
            address: object.address,
        }),
        rate: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_a_round_trip() {
        let facts = Facts {
            format: ImageFormat::Qcow2,
            packing: Some(Packing::Xz),
            virtual_size: Some(7),
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
