//! Reads the Secrets and ConfigMaps that a source is reached by (client
//! required).
//!
//! One by one and by name: the coordinator may list and watch none of them,
//! so nothing here keeps a copy.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::Api;
use kube::{Client, Error as KubeError};

use super::{Content, Kind, Objects, Reference};

/// The objects that `wanted` names, as they are now.
pub async fn read(client: &Client, wanted: BTreeSet<Reference>) -> Result<Objects, KubeError> {
    let mut objects = Objects::new();
    for reference in wanted {
        let Reference {
            kind,
            namespace,
            name,
            ..
        } = &reference;
        let content = match kind {
            Kind::Secret => {
                let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                api.get_opt(name).await?.map(secret)
            }
            Kind::ConfigMap => {
                let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
                api.get_opt(name).await?.map(config_map)
            }
        };
        objects.insert(reference, content);
    }
    Ok(objects)
}

fn secret(secret: Secret) -> Content {
    let values = secret.data.unwrap_or_default();
    Content {
        version: secret.metadata.resource_version.unwrap_or_default(),
        values: values.into_iter().map(|(k, v)| (k, v.0)).collect(),
    }
}

fn config_map(map: ConfigMap) -> Content {
    let texts = map.data.unwrap_or_default();
    let bytes = map.binary_data.unwrap_or_default();
    let texts = texts.into_iter().map(|(k, v)| (k, v.into_bytes()));
    Content {
        version: map.metadata.resource_version.unwrap_or_default(),
        values: texts
            .chain(bytes.into_iter().map(|(k, v)| (k, v.0)))
            .collect(),
    }
}
