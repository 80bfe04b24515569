//! The certificates of coordinator and agents, kept in Secrets of the
//! coordinator's own namespace (client required).
//!
//! Four Secrets: the authority's, the agents' (mounted by their DaemonSet),
//! the coordinator's (read here, mounted nowhere) and the webhook's, which
//! every replica makes and renews where the others are the leader's. A new authority is trusted beside the former one, whose
//! certificates are still in use. Two that meet never overwrite each
//! other: creation fails where the Secret is there, replacement where it
//! changed, and then the Secret is read again.

pub mod issue;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error as KubeError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agents::pool::{AGENT_NAME, ClientTls};
use hypercloud_api::names;
use issue::{IssueError, KeyedCertificate, Purpose, is_fresh, is_signed_by};

/// Secret with the authority.
pub const AUTHORITY_SECRET: &str = "hypercloud-storage-ca";
/// Secret that the agents mount.
pub const AGENT_SECRET: &str = "node-agent-tls";
/// Secret that the coordinator reads.
pub const COORDINATOR_SECRET: &str = "coordinator-tls";
/// Secret with what the webhook answers with.
pub const ADMISSION_SECRET: &str = "coordinator-admission-tls";
/// Service by which the API server reaches the webhook.
pub const ADMISSION_SERVICE: &str = "coordinator-admission";
/// Name that the coordinator's certificate speaks for.
pub const COORDINATOR_NAME: &str = "coordinator.hypercloud-storage";

/// How often the Secrets are looked at: one that was deleted is made anew
/// soon.
const INTERVAL: Duration = Duration::from_secs(60);
/// How often a race for a Secret is gone through.
const ATTEMPTS: u32 = 5;

const TLS_CRT: &str = "tls.crt";
const TLS_KEY: &str = "tls.key";
const CA_CRT: &str = "ca.crt";

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The API server did not answer.
    #[error("cannot {verb} the secret {secret}")]
    Secret {
        /// What was asked for.
        verb: &'static str,
        /// Name of the Secret.
        secret: &'static str,
        /// Why not.
        #[source]
        source: KubeError,
    },
    /// A certificate could not be made.
    #[error("cannot issue the certificate of {secret}")]
    Issue {
        /// Name of the Secret.
        secret: &'static str,
        /// Why not.
        #[source]
        source: IssueError,
    },
    /// Somebody else writes the Secret all the time.
    #[error("the secret {secret} changes faster than it can be written")]
    Contended {
        /// Name of the Secret.
        secret: &'static str,
    },
}

/// What a Secret holds.
#[derive(Clone, PartialEq, Eq)]
struct Kept {
    own: KeyedCertificate,
    /// Certificates of the authorities to trust, the present one first.
    authorities: String,
}

/// Sees to it that every Secret is there and fresh; answers with what the
/// coordinator shows the agents.
pub async fn ensure(
    client: &Client,
    namespace: &str,
    now: Timestamp,
) -> Result<ClientTls, TlsError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let authority = authority(&secrets, now).await?;
    let agents = Purpose::Server(AGENT_NAME);
    leaf(&secrets, AGENT_SECRET, agents, &authority, now).await?;
    let coordinator = Purpose::Client(COORDINATOR_NAME);
    let own = leaf(&secrets, COORDINATOR_SECRET, coordinator, &authority, now).await?;
    Ok(ClientTls {
        authorities: authority.authorities,
        certificate: own.certificate,
        key: own.key,
    })
}

/// Certificates (PEM) of the authorities to trust, the present one first;
/// there is one from then on.
pub async fn ensure_authorities(
    client: &Client,
    namespace: &str,
    now: Timestamp,
) -> Result<String, TlsError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    Ok(authority(&secrets, now).await?.authorities)
}

/// Sees to it that what the webhook answers with is there and fresh.
pub async fn ensure_admission(
    client: &Client,
    namespace: &str,
    now: Timestamp,
) -> Result<KeyedCertificate, TlsError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let authority = authority(&secrets, now).await?;
    let name = format!("{ADMISSION_SERVICE}.{namespace}.svc");
    let purpose = Purpose::Server(&name);
    leaf(&secrets, ADMISSION_SECRET, purpose, &authority, now).await
}

/// The authority. A new one is made beside the former where that is no longer
/// fresh.
async fn authority(secrets: &Api<Secret>, now: Timestamp) -> Result<Kept, TlsError> {
    settle(secrets, AUTHORITY_SECRET, |found| {
        let former =
            found.filter(|kept| is_signed_by(&kept.own.certificate, &kept.own.certificate));
        match former {
            Some(kept) if is_fresh(&kept.own.certificate, now) => Ok(kept),
            former => {
                let own = issue::authority(now)?;
                let trusted = former.map(|kept| kept.own.certificate);
                let authorities = own.certificate.clone() + &trusted.unwrap_or_default();
                Ok(Kept { own, authorities })
            }
        }
    })
    .await
}

/// An end entity's certificate, fresh and of this authority.
async fn leaf(
    secrets: &Api<Secret>,
    secret: &'static str,
    purpose: Purpose<'_>,
    authority: &Kept,
    now: Timestamp,
) -> Result<KeyedCertificate, TlsError> {
    let kept = settle(secrets, secret, |found| {
        let good = found.filter(|kept| {
            is_fresh(&kept.own.certificate, now)
                && is_signed_by(&kept.own.certificate, &authority.own.certificate)
                && kept.authorities == authority.authorities
        });
        match good {
            Some(kept) => Ok(kept),
            None => Ok(Kept {
                own: issue::leaf(&authority.own, purpose, now)?,
                authorities: authority.authorities.clone(),
            }),
        }
    });
    Ok(kept.await?.own)
}

/// Keeps the certificates fresh until `stop`.
pub async fn renew(
    client: Client,
    namespace: &str,
    tls: watch::Sender<ClientTls>,
    stop: CancellationToken,
) {
    while stop
        .run_until_cancelled(tokio::time::sleep(INTERVAL))
        .await
        .is_some()
    {
        match ensure(&client, namespace, Timestamp::now()).await {
            Ok(fresh) => {
                tls.send_if_modified(|known| {
                    let modified = *known != fresh;
                    *known = fresh;
                    modified
                });
            }
            Err(error) => tracing::warn!(%error, "renewing the certificates"),
        }
    }
}

/// Brings one Secret to what `wanted` makes of what it holds.
async fn settle(
    secrets: &Api<Secret>,
    name: &'static str,
    wanted: impl Fn(Option<Kept>) -> Result<Kept, IssueError>,
) -> Result<Kept, TlsError> {
    let failed = |verb| {
        move |source| TlsError::Secret {
            verb,
            secret: name,
            source,
        }
    };
    for _ in 0..ATTEMPTS {
        let found = secrets.get_opt(name).await.map_err(failed("read"))?;
        let held = found.as_ref().and_then(kept);
        let kept = wanted(held.clone()).map_err(|source| TlsError::Issue {
            secret: name,
            source,
        })?;
        if held.as_ref() == Some(&kept) {
            return Ok(kept);
        }
        let write = PostParams::default();
        let written = match found {
            Some(mut secret) => {
                secret.data = Some(entries(&kept));
                secrets.replace(name, &write, &secret).await
            }
            None => secrets.create(&write, &secret(name, &kept)).await,
        };
        match written {
            Ok(_) => {
                tracing::info!(secret = name, "certificate issued");
                return Ok(kept);
            }
            Err(KubeError::Api(status)) if status.is_conflict() || status.is_already_exists() => {}
            Err(error) => return Err(failed("write")(error)),
        }
    }
    Err(TlsError::Contended { secret: name })
}

fn kept(secret: &Secret) -> Option<Kept> {
    let data = secret.data.as_ref()?;
    let text = |key| String::from_utf8(data.get(key)?.0.clone()).ok();
    Some(Kept {
        own: KeyedCertificate {
            certificate: text(TLS_CRT)?,
            key: text(TLS_KEY)?,
        },
        authorities: text(CA_CRT)?,
    })
}

fn entries(kept: &Kept) -> BTreeMap<String, ByteString> {
    [
        (TLS_CRT, &kept.own.certificate),
        (TLS_KEY, &kept.own.key),
        (CA_CRT, &kept.authorities),
    ]
    .map(|(key, value)| (key.to_owned(), ByteString(value.clone().into_bytes())))
    .into()
}

fn secret(name: &str, kept: &Kept) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(
                names::LABEL_MANAGED_BY.to_owned(),
                names::MANAGED_BY.to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        data: Some(entries(kept)),
        type_: Some("kubernetes.io/tls".to_owned()),
        ..Secret::default()
    }
}
