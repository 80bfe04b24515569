//! A resource's holders as they are (client required).

use hypercloud_api::names;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ListParams};
use kube::{Client, Error as KubeError, ResourceExt};

use super::read;
use super::seen::{HolderSeen, HolderState};

/// Whose holders are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Namespace of the pods.
    pub namespace: &'a str,
    /// Label with the owner's UID.
    pub label: &'a str,
    /// UID of the owner.
    pub uid: &'a str,
}

/// The holders of `owner` by their labels, of any try. Anybody can set a
/// label: `is_name` says whether the owner gives a pod of this try this name,
/// and `accepts` may ask for more. A pod that merely looks like a holder is
/// none.
pub async fn list(
    client: &Client,
    owner: Owner<'_>,
    is_name: impl Fn(&str, u32) -> bool,
    accepts: impl Fn(&Pod) -> bool,
) -> Result<Vec<HolderSeen>, KubeError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), owner.namespace);
    let labels = format!(
        "{}={},{}={},{}={}",
        owner.label,
        owner.uid,
        names::LABEL_ROLE,
        names::ROLE_HOLDER,
        names::LABEL_MANAGED_BY,
        names::MANAGED_BY,
    );
    let list = pods.list(&ListParams::default().labels(&labels)).await?;
    let is_holder = |pod: &&Pod| {
        let name = pod.name_any();
        let attempt = name
            .rsplit_once('-')
            .and_then(|(_, attempt)| attempt.parse().ok());
        attempt.is_some_and(|attempt| is_name(&name, attempt)) && accepts(pod)
    };
    Ok(list.iter().filter(is_holder).map(read::holder).collect())
}

/// Says of holders that do not start what their Events alone tell.
pub async fn explain(client: &Client, namespace: &str, holders: &mut [HolderSeen], now: Timestamp) {
    for holder in holders
        .iter_mut()
        .filter(|holder| read::is_silent(holder, now))
    {
        let events = events(client, namespace, &holder.uid).await;
        holder.state = HolderState::Waiting(read::warning(&events, "HolderMountFailed"));
    }
}

/// The Events about an object; they only explain, so none is as good as a
/// failure to read them.
pub async fn events(client: &Client, namespace: &str, uid: &str) -> Vec<Event> {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let fields = format!("involvedObject.uid={uid}");
    match events.list(&ListParams::default().fields(&fields)).await {
        Ok(list) => list.items,
        Err(error) => {
            tracing::debug!(%error, "reading events");
            Vec::new()
        }
    }
}
