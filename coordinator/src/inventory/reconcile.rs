//! One reconcile of one node's inventory: the shell around observe, plan,
//! execute and status. It moves values between them and decides nothing.

use hypercloud_api::{NodeDeviceInventory, names};
use k8s_openapi::jiff::Timestamp;
use kube::Error as KubeError;
use kube::api::{Api, PostParams};
use kube::runtime::controller::Action as Requeue;

use super::execute::execute;
use super::observation::Observation;
use super::observe::observe;
use super::plan::plan;
use super::status;
use super::verdict::Verdict;
use crate::shell::Shell;
use crate::shell::error::ReconcileError;
use crate::shell::requeue::{Round, rounds};

/// Brings the inventory of node `name` to what is known now.
pub async fn reconcile(shell: &Shell, name: &str) -> Result<Requeue, ReconcileError> {
    rounds(|| async {
        let seen = observe(&shell.client, shell.agents.as_ref(), name).await?;
        let plan = plan(&seen, Timestamp::now());
        execute(shell, &seen, &plan).await?;
        report(shell, &seen, &plan.verdict).await?;
        Ok(Some(Round {
            again: plan.again,
            uid: name.to_owned(),
        }))
    })
    .await
}

/// Writes the status that follows from `verdict`.
async fn report(
    shell: &Shell,
    seen: &Observation,
    verdict: &Verdict,
) -> Result<(), ReconcileError> {
    let (Some(inventory), Some(node)) = (&seen.inventory, &seen.node) else {
        return Ok(());
    };
    if *verdict == Verdict::Keep {
        return Ok(());
    }
    let new = status::next(inventory, node, verdict, Timestamp::now());
    if inventory.status.as_ref() == Some(&new) {
        return Ok(());
    }
    // All of it is the coordinator's: what somebody else put there goes.
    let mut whole = inventory.clone();
    whole.metadata.managed_fields = None;
    whole.status = Some(new);
    let inventories: Api<NodeDeviceInventory> = Api::all(shell.client.clone());
    let parameters = PostParams {
        field_manager: Some(names::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    match inventories
        .replace_status(&seen.name, &parameters, &whole)
        .await
    {
        Ok(_) => shell.metrics.status_written(),
        Err(KubeError::Api(status)) if status.is_not_found() => {}
        Err(error) => return Err(ReconcileError::Status(error)),
    }
    Ok(())
}
