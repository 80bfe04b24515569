//! Does the actions of a plan (client required). Nothing is decided here.

use hypercloud_api::{NodeDeviceInventory, NodeDeviceInventorySpec, names};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, PostParams};
use kube::{Error as KubeError, Resource};

use super::observation::Observation;
use super::verdict::{Action, Plan};
use crate::shell::Shell;
use crate::shell::error::ExecuteError;
use crate::shell::write::{deleted, exactly};

/// Does the actions of `plan` in order.
pub async fn execute(shell: &Shell, seen: &Observation, plan: &Plan) -> Result<(), ExecuteError> {
    let inventories: Api<NodeDeviceInventory> = Api::all(shell.client.clone());
    for action in &plan.actions {
        tracing::debug!(?action, "acting");
        match action {
            Action::Create => {
                let made = inventories
                    .create(&PostParams::default(), &inventory(seen))
                    .await;
                match made {
                    Err(KubeError::Api(status)) if status.is_already_exists() => {}
                    Err(source) => {
                        let what = "create the inventory";
                        return Err(ExecuteError::Write { what, source });
                    }
                    Ok(_) => {}
                }
            }
            Action::Delete { uid } => {
                let gone = inventories.delete(&seen.name, &exactly(uid)).await;
                deleted(gone, "delete the inventory")?;
            }
        }
    }
    Ok(())
}

/// The inventory of a node: it goes with the node.
fn inventory(seen: &Observation) -> NodeDeviceInventory {
    let owner = seen.node.as_ref().map(|node| OwnerReference {
        api_version: Node::api_version(&()).into_owned(),
        kind: Node::kind(&()).into_owned(),
        name: seen.name.clone(),
        uid: node.uid.clone(),
        controller: Some(true),
        block_owner_deletion: None,
    });
    let label = (names::LABEL_MANAGED_BY, names::MANAGED_BY);
    NodeDeviceInventory {
        metadata: ObjectMeta {
            name: Some(seen.name.clone()),
            labels: Some([(label.0.to_owned(), label.1.to_owned())].into()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: NodeDeviceInventorySpec::default(),
        status: None,
    }
}
