//! The certificate that a replica answers with, and whom the API server trusts
//! when it asks (client required).
//!
//! Every replica sees to both, so that one which waits for a leader of an
//! earlier version answers all the same; of two that meet one writes, and the
//! other reads what was written. Nothing is registered here: that the API
//! server asks at all is in the manifests, and whoever takes it out there is
//! not contradicted.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Error as KubeError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::CONFIGURATION;
use super::certificate::{Certificate, Unusable};
use crate::tls::issue::KeyedCertificate;
use crate::tls::{self, ADMISSION_SERVICE, TlsError};
use hypercloud_api::names::FIELD_MANAGER;

/// How often both are looked at.
const INTERVAL: Duration = Duration::from_secs(10);
/// How often while they are not as they are meant.
const SOON: Duration = Duration::from_secs(1);

/// Why a replica has nothing to answer with that the API server trusts.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// There is no certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is one that cannot be used.
    #[error("the certificate in the secret {}", tls::ADMISSION_SECRET)]
    Unusable(#[from] Unusable),
    /// The configuration could not be read or written.
    #[error("cannot {verb} the ValidatingWebhookConfiguration {CONFIGURATION}")]
    Configuration {
        /// What was asked for.
        verb: &'static str,
        /// Why not.
        #[source]
        source: KubeError,
    },
}

/// Keeps `certificate`, and the trust in it, as they are meant until `stop`.
/// What fails leaves the certificate before in use.
pub async fn keep(
    client: Client,
    namespace: &str,
    certificate: Arc<Certificate>,
    stop: CancellationToken,
) {
    let mut current: Option<KeyedCertificate> = None;
    loop {
        let kept = renew(&client, namespace, &certificate, &mut current).await;
        if let Err(error) = &kept {
            let chain = error_chain(error);
            tracing::warn!(error = chain, "keeping the webhook's certificate");
        }
        let pause = tokio::time::sleep(if kept.is_ok() { INTERVAL } else { SOON });
        if stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

async fn renew(
    client: &Client,
    namespace: &str,
    certificate: &Certificate,
    current: &mut Option<KeyedCertificate>,
) -> Result<(), RegisterError> {
    let kept = ensure(client, namespace, Timestamp::now()).await?;
    if current.as_ref() != Some(&kept) {
        certificate.set(&kept)?;
        tracing::info!("the webhook answers with the certificate in the secret");
        *current = Some(kept);
    }
    Ok(())
}

/// Has the API server trust the authorities, and then a certificate of theirs
/// be there: a new authority is trusted before anything of it is used.
pub async fn ensure(
    client: &Client,
    namespace: &str,
    now: Timestamp,
) -> Result<KeyedCertificate, RegisterError> {
    let authorities = tls::ensure_authorities(client, namespace, now).await?;
    trust(client, namespace, &authorities).await?;
    Ok(tls::ensure_admission(client, namespace, now).await?)
}

async fn trust(client: &Client, namespace: &str, authorities: &str) -> Result<(), RegisterError> {
    let failed = |verb| move |source| RegisterError::Configuration { verb, source };
    let all: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let found = match all.get_opt(CONFIGURATION).await {
        // Whoever gives no right to it sees to the trust himself.
        Err(KubeError::Api(status)) if status.is_forbidden() => None,
        found => found.map_err(failed("read"))?,
    };
    let change = found.and_then(|found| change(&found, namespace, authorities));
    if let Some(change) = change {
        let by = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let change = Patch::Strategic(change);
        let patched = all.patch(CONFIGURATION, &by, &change).await;
        // Where another replica was first, its writing is looked at soon.
        patched.map_err(failed("write"))?;
        tracing::info!("the API server trusts the webhook's certificate");
    }
    Ok(())
}

/// The error with what it comes of.
fn error_chain(error: &RegisterError) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source());
    let words: Vec<String> = causes.map(ToString::to_string).collect();
    words.join(": ")
}

/// What of the configuration has to become different; nothing where it trusts
/// `authorities` already. Webhooks that are not this one are left alone.
pub fn change(
    configuration: &ValidatingWebhookConfiguration,
    namespace: &str,
    authorities: &str,
) -> Option<Value> {
    let bundle = ByteString(authorities.as_bytes().to_vec());
    let webhooks = configuration.webhooks.iter().flatten();
    let ours = webhooks.filter(|webhook| {
        let service = webhook.client_config.service.as_ref();
        service.is_some_and(|service| {
            service.name == ADMISSION_SERVICE && service.namespace == namespace
        })
    });
    let changed: Vec<Value> = ours
        .filter(|webhook| webhook.client_config.ca_bundle.as_ref() != Some(&bundle))
        .map(|webhook| json!({"name": webhook.name, "clientConfig": {"caBundle": bundle}}))
        .collect();
    let meta = &configuration.metadata;
    (!changed.is_empty()).then(|| {
        // Of the configuration that was read, and no later one.
        json!({"metadata": {"resourceVersion": meta.resource_version}, "webhooks": changed})
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(bundle: Option<&str>) -> ValidatingWebhookConfiguration {
        let bundle = bundle.map(|text| ByteString(text.as_bytes().to_vec()));
        let webhook = |name: &str, service: Value| {
            json!({"name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": service})
        };
        let service = |name: &str| json!({"name": name, "namespace": "system"});
        serde_json::from_value(json!({
            "metadata": {"name": CONFIGURATION, "resourceVersion": "7"},
            "webhooks": [
                webhook("ours", json!({"service": service(ADMISSION_SERVICE), "caBundle": bundle})),
                webhook("theirs", json!({"service": service("another")})),
                webhook("outside", json!({"url": "https://example.org"})),
            ],
        }))
        .unwrap()
    }

    #[test]
    fn only_our_webhook_is_changed_and_only_if_it_has_to_be() {
        let change = |bundle| super::change(&configuration(bundle), "system", "authority");
        for former in [None, Some("former")] {
            let change = change(former).unwrap();
            assert_eq!(change["metadata"]["resourceVersion"], "7");
            assert_eq!(
                change["webhooks"],
                json!([{"name": "ours", "clientConfig": {"caBundle": "YXV0aG9yaXR5"}}])
            );
        }
        assert_eq!(change(Some("authority")), None);
        let elsewhere = super::change(&configuration(None), "other", "authority");
        assert_eq!(elsewhere, None);
    }
}
