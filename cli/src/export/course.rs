//! Where an export is, as its resource tells it. Values in, values out.

use hypercloud_api::{ExportPhase, VirtualMachineVolumeExport, VirtualMachineVolumeExportStatus};
use indicatif::HumanBytes;
use serde::Serialize;

use crate::cluster::{Course, Figures, Followed, Outcome, Said, Step, Work, bytes, percent};

/// What is counted of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Moved {
    /// Bytes that were read from the volume.
    pub(crate) bytes_read: u64,
    /// Bytes that are stored.
    pub(crate) bytes_stored: u64,
}

impl Figures for Moved {
    fn shown(&self) -> String {
        format!("{} stored", HumanBytes(self.bytes_stored))
    }
}

/// An export that is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Done {
    /// The object, as `s3://bucket/key`.
    pub(crate) url: String,
    /// Its http or https address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// Its ETag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) etag: Option<String>,
    /// Its checksum, as the store verified it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<String>,
    /// The disk's size in bytes.
    pub(crate) virtual_size: u64,
    /// The digest of the disk's content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    /// Where an address stands by which everybody can fetch the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) download: Option<Download>,
}

/// Where an address stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Download {
    /// Namespace of the Secret.
    pub(crate) namespace: String,
    /// The Secret, whose key `url` it is.
    pub(crate) secret_name: String,
}

impl Outcome for Done {
    fn shown(&self) -> String {
        let size = HumanBytes(self.size);
        let mut lines = vec![format!(
            "exported: {}, {size} ({} bytes)",
            self.url, self.size
        )];
        let told = [
            ("address", &self.address),
            ("etag", &self.etag),
            ("checksum", &self.checksum),
            ("disk", &self.digest),
        ];
        for (what, value) in told {
            lines.extend(value.as_ref().map(|value| format!("{what}: {value}")));
        }
        lines.extend(self.download.as_ref().map(|Download { namespace, secret_name }| {
            format!(
                "download: curl --output FILE \"$(kubectl get --namespace {namespace} secret {secret_name} --output 'jsonpath={{.data.url}}' | base64 --decode)\""
            )
        }));
        lines.join("\n")
    }
}

impl Followed for VirtualMachineVolumeExport {
    type Figures = Moved;
    type Done = Done;
    const WORK: &'static Work = &Work {
        word: "export",
        kind: "VirtualMachineVolumeExport",
        resource: "virtualmachinevolumeexport",
        vanished: "what was stored is discarded, unless the object was complete already",
    };

    fn course(&self) -> Course<Moved, Done> {
        let status = self.status.clone().unwrap_or_default();
        let said = Said::of(&status.conditions);
        let phase = status.phase.unwrap_or_default();
        match phase {
            ExportPhase::Succeeded => {
                let namespace = self.metadata.namespace.clone().unwrap_or_default();
                Course::Done(done(status, namespace))
            }
            ExportPhase::Failed => Course::of_failed(said),
            ExportPhase::Pending
            | ExportPhase::Preparing
            | ExportPhase::Exporting
            | ExportPhase::Deleting => {
                let upload = status.upload.unwrap_or_default();
                Course::UnderWay(Step {
                    phase: phase.as_str(),
                    said,
                    percent: status.progress.as_deref().and_then(percent),
                    bytes_total: upload.bytes_total.map(bytes),
                    bytes_done: bytes(upload.bytes_done),
                    figures: Moved {
                        bytes_read: bytes(upload.bytes_read),
                        bytes_stored: bytes(upload.bytes_stored),
                    },
                })
            }
        }
    }
}

fn done(status: VirtualMachineVolumeExportStatus, namespace: String) -> Done {
    let object = status.object.unwrap_or_default();
    let disk = status.disk.unwrap_or_default();
    Done {
        url: object.url,
        address: object.address,
        size: bytes(object.size),
        etag: object.etag,
        checksum: object.checksum,
        virtual_size: bytes(disk.virtual_size),
        digest: disk.digest,
        download: status.download_url.map(|download| Download {
            namespace,
            secret_name: download.secret_name,
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(status: Value) -> Course<Moved, Done> {
        let object = super::super::tests::object("7", status);
        let export: VirtualMachineVolumeExport = serde_json::from_value(object).unwrap();
        export.course()
    }

    #[test]
    fn each_phase_is_understood() {
        let complete = |reason: &str| {
            json!([{"type": "Complete", "status": "False", "reason": reason, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        };
        let said = |reason: &str| Said {
            reason: reason.into(),
            message: "m".into(),
        };
        assert_eq!(
            of(json!({})),
            Course::UnderWay(Step {
                phase: "Pending",
                ..Step::default()
            })
        );
        let working = json!({"phase": "Exporting", "progress": "42%",
            "conditions": complete("Exporting"),
            "upload": {"jobId": "j", "nodeName": "n", "bytesTotal": 100, "bytesDone": 42,
                "bytesRead": 40, "bytesStored": 5}});
        let expected = Step {
            phase: "Exporting",
            said: said("Exporting"),
            percent: Some(42),
            bytes_total: Some(100),
            bytes_done: 42,
            figures: Moved {
                bytes_read: 40,
                bytes_stored: 5,
            },
        };
        assert_eq!(of(working), Course::UnderWay(expected));
        let failed = |reason| of(json!({"phase": "Failed", "conditions": complete(reason)}));
        let exists = "ObjectExists";
        assert_eq!(failed(exists), Course::Refused(said(exists)));
        let exhausted = "RetriesExhausted";
        assert_eq!(failed(exhausted), Course::Failed(said(exhausted)));
    }

    #[test]
    fn what_became_of_the_disk_is_told_in_lines() {
        let done = of(json!({"phase": "Succeeded",
            "object": {"url": "s3://vm-image/mydisk", "size": 2048, "etag": "\"e-2\"",
                "address": "http://store.test/vm-image/mydisk"},
            "disk": {"virtualSize": 4096, "digest": "sha256:0a"},
            "downloadUrl": {"secretName": "export-download"}}));
        let Course::Done(done) = done else {
            panic!("{done:?}")
        };
        assert_eq!((done.size, done.virtual_size), (2048, 4096));
        let shown = done.shown();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "exported: s3://vm-image/mydisk, 2.00 KiB (2048 bytes)",
                "address: http://store.test/vm-image/mydisk",
                "etag: \"e-2\"",
                "disk: sha256:0a",
            ]
        );
        assert!(
            lines[4].contains("--namespace team secret export-download"),
            "{shown}"
        );
    }
}
