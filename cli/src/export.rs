//! `export`: asks the cluster to make an object of a disk, and follows how it
//! goes.

mod course;

#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use hypercloud_api::{
    CaReference, DownloadUrl, ExportDigest, SecretReference, StoredObject,
    VirtualMachineVolumeExport, VirtualMachineVolumeExportSpec,
};
use url::Url;

use crate::arguments::{Compression, ExportKind, Shown};
use crate::cluster::{self, ClusterArguments, Waiting, duration, generated_name, object_name};
use crate::source::ObjectName;

/// The times that an address for fetching may be good for.
const VALID: (Duration, Duration) = (
    Duration::from_secs(60),
    Duration::from_secs(7 * 24 * 60 * 60),
);

/// Make an object in an object store of a disk, as qcow2 or raw
///
/// A disk in use is exported from a snapshot that is made for it. The object
/// appears when it is complete, or not at all. Keys for the store are in a
/// Secret beside the disk; without --endpoint and --secret, the object goes to
/// the store that the cluster is set up with. Stopping this command does not
/// stop the export.
///
/// Exit codes: 0 done, 1 stopped, 2 usage, 3 the export is refused and nothing
/// is stored, 4 it failed, or was not done in time.
#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// The disk: the name of its PersistentVolumeClaim
    #[arg(value_parser = object_name)]
    disk: String,
    /// The object, written s3://BUCKET/KEY with the key as it is
    #[arg(value_name = "OBJECT", value_parser = ObjectName::parse)]
    object: ObjectName,
    /// Name of the VirtualMachineVolumeExport that is made; one of the disk's
    /// name where none is given
    #[arg(long, value_parser = object_name)]
    name: Option<String>,
    /// What the object is to be
    #[arg(long, value_enum, default_value_t = ExportKind::Qcow2)]
    format: ExportKind,
    /// How the clusters of a qcow2 are compressed; zlib where nothing is said
    #[arg(long, value_enum)]
    compression: Option<Compression>,
    /// Replace the object if it exists
    #[arg(long)]
    overwrite: bool,
    /// Whether the digest of the disk's content is computed; the cluster
    /// chooses by its size where nothing is said
    #[arg(long, value_enum)]
    digest: Option<DigestKind>,
    /// Make an address, too, by which everybody who knows it can fetch the
    /// object for so long, as 12h; it is put into a Secret
    #[arg(long, value_name = "DURATION", value_parser = validity)]
    download_url: Option<Duration>,
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    shown: Shown,
}

/// Where the object goes, and what lets in there.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Object store")]
struct StoreArguments {
    /// Address of the store; the one that the cluster is set up with where
    /// none is given, else Amazon's for the region
    #[arg(long, value_name = "URL")]
    endpoint: Option<Url>,
    /// Region that requests are signed for
    #[arg(long)]
    region: Option<String>,
    /// Put the bucket into the path (as all stores but Amazon's have it by
    /// default), or before the host's name
    #[arg(
        long,
        action = ArgAction::Set,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    path_style: Option<bool>,
    /// Secret with the keys accessKeyId and secretKey
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    secret: Option<String>,
    /// ConfigMap with certificates (PEM) of authorities to trust as well
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    ca_config_map: Option<String>,
}

/// Which digest is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DigestKind {
    /// SHA-256 of every byte of the disk
    Sha256,
    /// None
    None,
}

/// Does what the arguments say.
pub(crate) async fn run(arguments: ExportArguments) -> ExitCode {
    let export = resource(&arguments);
    let format = arguments.shown.output;
    let cluster = arguments.cluster.connect();
    cluster::run(cluster, export, &arguments.waiting, format).await
}

fn resource(arguments: &ExportArguments) -> VirtualMachineVolumeExport {
    let (object, store) = (&arguments.object, &arguments.store);
    let spec = VirtualMachineVolumeExportSpec {
        pvc_name: arguments.disk.clone(),
        object_store: StoredObject {
            bucket_name: Some(object.bucket.clone()),
            object_name: object.key.clone(),
            endpoint: store.endpoint.as_ref().map(Url::to_string),
            region: store.region.clone(),
            force_path_style: store.path_style,
            object_bucket_claim: None,
        },
        secret_ref: store.secret.clone().map(|name| SecretReference { name }),
        ca_config_map: store
            .ca_config_map
            .clone()
            .map(|name| CaReference { name, key: None }),
        cert_config_map: None,
        format: Some(arguments.format.of_resource()),
        compression: arguments.compression.map(Compression::of_resource),
        overwrite: arguments.overwrite,
        digest: arguments.digest.map(|digest| match digest {
            DigestKind::Sha256 => ExportDigest::Sha256,
            DigestKind::None => ExportDigest::None,
        }),
        download_url: arguments.download_url.map(|valid| DownloadUrl {
            expires_after_seconds: i64::try_from(valid.as_secs()).unwrap_or(i64::MAX),
        }),
    };
    let mut export = VirtualMachineVolumeExport::new("", spec);
    export.metadata.name = arguments.name.clone();
    if arguments.name.is_none() {
        export.metadata.generate_name = Some(generated_name(&arguments.disk));
    }
    export
}

/// For how long an address is to be good.
fn validity(text: &str) -> Result<Duration, String> {
    let valid = duration(text)?;
    if (VALID.0..=VALID.1).contains(&valid) {
        Ok(valid)
    } else {
        Err("an address can be good for a minute to a week".to_owned())
    }
}
