//! The leader tells the API server whom to trust when it asks (client
//! required).
//!
//! Nothing is registered here: that the API server asks at all is in the
//! manifests, and whoever takes it out there is not contradicted.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Error as KubeError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::CONFIGURATION;
use crate::tls::{self, ADMISSION_SERVICE, TlsError};
use hypercloud_api::names::FIELD_MANAGER;

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(10);

/// Why the API server was not told.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// There is no certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
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

/// Keeps certificate and trust as they are meant, until `stop`.
pub async fn keep(client: Client, namespace: &str, stop: CancellationToken) {
    loop {
        if let Err(error) = ensure(&client, namespace, Timestamp::now()).await {
            let error = anyhow::Error::from(error);
            tracing::warn!(error = format!("{error:#}"), "registering the webhook");
        }
        let pause = tokio::time::sleep(INTERVAL);
        if stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

/// Has the API server trust the authorities, then the webhook answer with a
/// certificate of theirs: a new authority is trusted before it is used.
pub async fn ensure(client: &Client, namespace: &str, now: Timestamp) -> Result<(), RegisterError> {
    let failed = |verb| move |source| RegisterError::Configuration { verb, source };
    let authorities = tls::ensure_authorities(client, namespace, now).await?;
    let all: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let found = all.get_opt(CONFIGURATION).await.map_err(failed("read"))?;
    let change = found.and_then(|found| change(&found, namespace, &authorities));
    if let Some(change) = change {
        let by = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let change = Patch::Strategic(change);
        let patched = all.patch(CONFIGURATION, &by, &change).await;
        patched.map_err(failed("write"))?;
        tracing::info!("the API server trusts the webhook's certificate");
    }
    tls::ensure_admission(client, namespace, now).await?;
    Ok(())
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
