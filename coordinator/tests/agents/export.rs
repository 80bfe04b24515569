//! Exports: what is asked of an agent, and what it tells.

use hypercloud_api::{ExportCompression, ExportFormat};
use hypercloud_coordinator::agents::source::Stored;
use hypercloud_coordinator::agents::{ExportJob, ExportedObject};

use super::*;

fn object() -> Stored {
    Stored {
        place: ObjectPlace {
            bucket: "vms".into(),
            key: "backup/disk".into(),
            endpoint: Some("http://s3.example:9000".into()),
            region: None,
            path_style: true,
        },
        signing: Signing::Keys {
            id: "id".into(),
            key: "s3cret".into(),
            token: None,
        },
        authorities: Some("PEM".into()),
    }
}

fn export(id: &str) -> ExportJob {
    ExportJob {
        id: id.into(),
        pod_uid: "pod".into(),
        volume: JobVolume {
            name: "pv".into(),
            kind: VolumeKind::Filesystem,
        },
        format: ExportFormat::Qcow2,
        compression: ExportCompression::Zstd,
        overwrite: true,
        digest: true,
    }
}

#[tokio::test]
async fn an_export_is_started_with_its_object_and_followed_to_its_end() {
    let keys = certificates();
    let agent = Simulated::named("n1");
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    links
        .until("the snapshot", |pool| pool.synced() == ["n1"])
        .await;
    let started = links.pool.export("n1", &export("uid-0"), &object()).await;
    assert_eq!(started.unwrap().state, JobState::Pending);
    let spec = agent.exported().remove(0);
    let volume = spec.volume.clone().unwrap();
    assert_eq!(
        (volume.volume_name.as_str(), volume.pod_uid.as_str()),
        ("pv", "pod")
    );
    assert_eq!(volume.mode(), proto::VolumeMode::Filesystem);
    assert_eq!(spec.format(), proto::ImageFormat::Qcow2);
    assert_eq!(spec.compression(), proto::Compression::Zstd);
    assert!(spec.overwrite && spec.digest);
    assert_eq!(spec.owner, "uid");
    let stored = spec.object.unwrap();
    assert_eq!(
        (stored.bucket.as_str(), stored.key.as_str()),
        ("vms", "backup/disk")
    );
    assert!(stored.path_style && stored.authorities.as_deref() == Some("PEM"));
    let Some(proto::stored_object::Credentials::Keys(shown)) = stored.credentials else {
        panic!("no keys");
    };
    assert_eq!(shown.secret_access_key, "s3cret");

    let mut at_work = job("uid-0", proto::JobState::Transferring, 512);
    at_work.upload_id = Some("upload".into());
    agent.put(at_work);
    let uploads = |pool: &Pool| pool.jobs_of("uid")[0].job.upload_id.as_deref() == Some("upload");
    links.until("the upload", uploads).await;
    let mut made = job("uid-0", proto::JobState::Succeeded, 1024);
    made.digest = Some("sha256:00".into());
    made.object = Some(proto::ExportedObject {
        size: 333,
        virtual_size: 1024,
        etag: Some("\"etag\"".into()),
        checksum: None,
        address: "http://s3.example:9000/vms/backup/disk".into(),
    });
    agent.put(made);
    let succeeded = |pool: &Pool| pool.jobs_of("uid")[0].job.state == JobState::Succeeded;
    links.until("the end", succeeded).await;
    let job = links.pool.jobs_of("uid").remove(0).job;
    let expected = ExportedObject {
        size: 333,
        virtual_size: 1024,
        etag: Some("\"etag\"".into()),
        checksum: None,
        address: "http://s3.example:9000/vms/backup/disk".into(),
    };
    assert_eq!((job.object, job.upload_id), (Some(expected), None));
    links.close().await;
}

#[tokio::test]
async fn parts_are_removed_and_addresses_signed_by_any_agent() {
    let keys = certificates();
    let agent = Simulated::named("n1");
    let address = agent.serve(&keys.authority, &keys.server).await;
    let mut links = Links::to([("n1".into(), address)].into(), keys.client);
    links
        .until("the snapshot", |pool| pool.synced() == ["n1"])
        .await;
    let discarded = links.pool.discard("n1", &object(), "upload").await;
    assert_eq!(discarded, Ok(Ok(())));
    assert_eq!(agent.discarded(), ["upload"]);
    let valid = Duration::from_secs(60);
    let signed = links.pool.presign("n1", &object(), valid).await;
    let signed = signed.unwrap().unwrap();
    assert_eq!(signed.reveal(), "http://store/vms/backup/disk?signed");
    assert!(!format!("{signed:?}").contains("signed)"), "{signed:?}");
    let away = links.pool.presign("n2", &object(), valid).await;
    assert_eq!(away.unwrap_err(), AgentError::Away { node: "n2".into() });
    links.close().await;
}
