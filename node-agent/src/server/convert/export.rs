//! Exports in a request, and what else is asked about objects.

use std::time::Duration;

use hypercloud_proto::agent::v1 as proto;
use tonic::Status;

use super::{format_in, invalid, source, volume_in};
use crate::job::drive::chain;
use crate::job::spec::{Compression, ExportFormat, ExportSpec};
use crate::source::{Access, Format, ObjectLocation};

/// The longest time that a signature may be good for, as stores have it.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

pub(in crate::server) fn export_spec(
    spec: proto::ExportSpec,
) -> Result<(ExportSpec, Access), Status> {
    let format = format(spec.format, spec.compression)?;
    let volume = volume_in(spec.volume, "volume")?;
    let (object, access) = object(spec.object)?;
    let owner = owner(spec.owner)?;
    let spec = ExportSpec {
        volume,
        object,
        format,
        overwrite: spec.overwrite,
        owner,
        digest: spec.digest,
        needs_access: !access.is_plain(),
    };
    Ok((spec, access))
}

/// Whose the object is to be, where that is said. It stands in a header.
fn owner(owner: String) -> Result<Option<String>, Status> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    match owner.len() {
        0 => Ok(None),
        1..=64 if owner.bytes().all(plain) => Ok(Some(owner)),
        _ => Err(invalid("an owner is at most 64 letters, digits or '-'")),
    }
}

/// The object of a request, and how its store is reached.
pub(in crate::server) fn object(
    object: Option<proto::StoredObject>,
) -> Result<(ObjectLocation, Access), Status> {
    let object = object.ok_or_else(|| invalid("the request names no object"))?;
    source::object(object).map_err(|error| invalid(chain(&error)))
}

/// For how long an address is to be good.
pub(in crate::server) fn validity(seconds: u64) -> Result<Duration, Status> {
    let valid = Duration::from_secs(seconds);
    if valid.is_zero() || valid > LONGEST {
        return Err(invalid(format!(
            "an address can be good for 1 to {} seconds, not for {seconds}",
            LONGEST.as_secs()
        )));
    }
    Ok(valid)
}

fn format(format: i32, compression: i32) -> Result<ExportFormat, Status> {
    use proto::Compression as Asked;

    let compression = match Asked::try_from(compression) {
        Ok(Asked::None) => Compression::None,
        Ok(Asked::Zlib) => Compression::Zlib,
        Ok(Asked::Zstd) => Compression::Zstd,
        Ok(Asked::Unspecified) => return Err(invalid("the export names no compression")),
        Err(_) => return Err(invalid("the compression is not one that this agent knows")),
    };
    match (format_in(format)?, compression) {
        (Some(Format::Qcow2), compression) => Ok(ExportFormat::Qcow2(compression)),
        (Some(Format::Raw), Compression::None) => Ok(ExportFormat::Raw),
        (Some(Format::Raw), _) => Err(invalid("a raw object is not compressed")),
        (None, _) => Err(invalid("the export names no format")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export() -> proto::ExportSpec {
        let keys = proto::AccessKeys {
            access_key_id: "id".into(),
            secret_access_key: "s3cret".into(),
            session_token: None,
        };
        proto::ExportSpec {
            volume: Some(proto::PodVolume {
                pod_uid: "u-1".into(),
                volume_name: "pvc-1".into(),
                mode: proto::VolumeMode::Block.into(),
            }),
            object: Some(proto::StoredObject {
                bucket: "images".into(),
                key: "disk".into(),
                endpoint: Some("http://store.test".into()),
                region: None,
                path_style: true,
                credentials: Some(proto::stored_object::Credentials::Keys(keys)),
                authorities: None,
            }),
            format: proto::ImageFormat::Qcow2.into(),
            compression: proto::Compression::Zstd.into(),
            overwrite: true,
            digest: true,
            owner: "7f-1".into(),
        }
    }

    #[test]
    fn an_export_is_understood_and_its_keys_are_no_part_of_it() {
        let (spec, access) = export_spec(export()).unwrap();
        assert_eq!(spec.volume.volume_name.as_str(), "pvc-1");
        assert_eq!(spec.object.to_string(), "s3://images/disk");
        assert_eq!(spec.format, ExportFormat::Qcow2(Compression::Zstd));
        assert!(spec.overwrite && spec.digest && spec.needs_access);
        assert_eq!(spec.owner.as_deref(), Some("7f-1"));
        assert!(!access.is_plain());
        assert!(!serde_json::to_string(&spec).unwrap().contains("s3cret"));
        let raw = proto::ExportSpec {
            format: proto::ImageFormat::Raw.into(),
            compression: proto::Compression::None.into(),
            overwrite: false,
            digest: false,
            owner: String::new(),
            ..export()
        };
        let (spec, _) = export_spec(raw).unwrap();
        assert_eq!(spec.format, ExportFormat::Raw);
        assert!(!spec.overwrite && !spec.digest);
    }

    #[test]
    fn every_gap_in_an_export_is_named() {
        type Spoil = fn(&mut proto::ExportSpec);
        fn stored(spec: &mut proto::ExportSpec) -> &mut proto::StoredObject {
            spec.object.as_mut().unwrap()
        }
        let gaps: [(&str, Spoil); 11] = [
            ("no volume", |s| s.volume = None),
            ("no object", |s| s.object = None),
            ("no bucket or no object", |s| stored(s).key.clear()),
            ("how to sign", |s| stored(s).credentials = None),
            ("user name or password", |s| {
                stored(s).endpoint = Some("http://u:p@store.test".into());
            }),
            ("an owner is", |s| s.owner = "a/b".into()),
            ("no format", |s| s.format = 0),
            ("format is not one", |s| s.format = 77),
            ("no compression", |s| s.compression = 0),
            ("compression is not one", |s| s.compression = 77),
            ("raw object is not compressed", |s| {
                s.format = proto::ImageFormat::Raw.into();
            }),
        ];
        for (said, spoil) in gaps {
            let mut spec = export();
            spoil(&mut spec);
            let status = export_spec(spec).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument);
            assert!(
                status.message().contains(said),
                "{:?} of {said:?}",
                status.message()
            );
        }
    }

    #[test]
    fn an_address_is_good_for_a_week_at_most() {
        assert_eq!(validity(604_800).unwrap(), LONGEST);
        assert_eq!(validity(1).unwrap(), Duration::from_secs(1));
        for seconds in [0, 604_801, u64::MAX] {
            assert!(validity(seconds).is_err(), "{seconds}");
        }
    }
}
