//! Sources that not everybody is let in at, and images that have to be what
//! they are said to be.

use e2e::cluster::Cluster;
use e2e::disk::{self, Disk, Recipe};
use e2e::source::{Guard, Server, stage};
use e2e::{access, image, reader, system};
use hypercloud_api::VirtualMachineImage;
use serde_json::json;

const MIB: u64 = 1 << 20;
const PASSWORD: &str = "correct horse battery staple";
const TOKEN: &str = "a token that nobody guesses";

fn small() -> anyhow::Result<Disk> {
    Recipe {
        virtual_size: 64 * MIB,
        data: 16 * MIB,
        convert: disk::ZLIB,
    }
    .make()
}

#[tokio::test]
async fn a_guarded_source_is_reached_by_secrets_and_certificates() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    let scope = cluster.scope("guarded").await?;
    let guard = Guard {
        username: "reader",
        password: PASSWORD,
        token: Some(TOKEN),
    };
    let (server, authority) = Server::guarded(cluster.address_for_pods().await?, guard).await?;
    let disk = small()?;
    let address = server.file("disk", &disk.image)?;
    let digest = format!("sha256:{}", disk::file_sha256(&disk.image)?);
    access::secret(
        &scope,
        "tokens",
        &[("any", &format!("X-Image-Token: {TOKEN}"))],
    )
    .await?;
    access::config_map(&scope, "ca", &[("ca.crt", &authority)]).await?;
    let source = json!({
        "http": address.url,
        "checksum": digest,
        "format": "qcow2",
        "secretRef": {"name": "login"},
        "secretHeaders": [{"name": "tokens"}],
        "caConfigMap": {"name": "ca"}
    });
    image::from(&scope, "guarded", source, "Block").await?;

    let message = image::waiting(&scope, "guarded", "SecretNotFound").await?;
    assert!(message.contains("Secret login"), "{message}");
    let wrong = [("username", "reader"), ("password", "wrong")];
    access::secret(&scope, "login", &wrong).await?;
    let message = image::waiting(&scope, "guarded", "CredentialsRejected").await?;
    assert!(message.contains("change the Secret"), "{message}");
    assert_eq!(address.served(), 0, "not a byte without credentials");
    let right = [("username", "reader"), ("password", PASSWORD)];
    access::secret(&scope, "login", &right).await?;
    image::ready(&scope, "guarded", image::IMPORT).await?;

    let image = scope.api::<VirtualMachineImage>().get("guarded").await?;
    let status = image.status.clone().unwrap_or_default();
    let found = status.source.unwrap_or_default();
    assert_eq!(found.digest.as_deref(), Some(digest.as_str()));
    assert!(status.rejected_credentials.is_empty());
    assert!(status.transfer.unwrap_or_default().rate > Some(0));
    let claim = hypercloud_api::names::image_claim("guarded");
    let sha256 = reader::block_sha256(&scope, &claim, disk.virtual_size).await?;
    assert_eq!(sha256, disk.sha256);

    let told = serde_json::to_string(&image)? + &system::logs(&cluster).await?;
    for secret in [PASSWORD, TOKEN] {
        assert!(!told.contains(secret), "a secret stands in status or log");
    }
    scope.close().await
}

#[tokio::test]
async fn a_server_of_an_unknown_authority_is_not_trusted() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    let scope = cluster.scope("untrusted").await?;
    let guard = Guard {
        username: "reader",
        password: PASSWORD,
        token: None,
    };
    let (server, _) = Server::guarded(cluster.address_for_pods().await?, guard).await?;
    access::config_map(&scope, "ca", &[("ca.crt", "not a certificate")]).await?;
    let source = json!({"http": server.missing(), "certConfigMap": "ca"});
    image::from(&scope, "broken", source, "Block").await?;
    image::waiting(&scope, "broken", "InvalidCertificate").await?;
    let (reason, message) = {
        image::create(&scope, "untrusted", &server.missing(), "Block").await?;
        image::failed(&scope, "untrusted").await?
    };
    assert_eq!(reason, "CertificateInvalid", "{message}");
    scope.close().await
}

#[tokio::test]
async fn another_checksum_or_format_than_was_said_is_the_end() -> anyhow::Result<()> {
    let (scope, server) = stage("said").await?;
    let disk = small()?;
    let address = server.file("disk", &disk.image)?;
    let source = json!({
        "http": address.url,
        "checksum": format!("sha512:{}", "0a".repeat(64))
    });
    image::from(&scope, "checksum", source, "Block").await?;
    let source = json!({"http": address.url, "format": "raw"});
    image::from(&scope, "format", source, "Block").await?;
    let (reason, message) = image::failed(&scope, "checksum").await?;
    assert_eq!(reason, "ChecksumMismatch", "{message}");
    let (reason, message) = image::failed(&scope, "format").await?;
    assert_eq!(reason, "FormatMismatch", "{message}");
    for name in ["checksum", "format"] {
        image::delete(&scope, name).await?;
    }
    let left = image::leftovers(&scope).await?;
    assert!(left.is_empty(), "{left:?}");
    scope.close().await
}
