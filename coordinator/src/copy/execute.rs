//! Does the actions of a copy (client required). Nothing is decided here.

use super::plan::Action;
use crate::agents::CopyJob;
use crate::holder::HolderPod;
use crate::shell::Shell;
use crate::shell::error::ExecuteError;
use crate::work;
pub use crate::work::execute::Learnt;

/// Does one action for the holder pod that `holder` describes.
pub async fn act(
    shell: &Shell,
    holder: &HolderPod,
    action: &Action,
) -> Result<Learnt, ExecuteError> {
    let start = |node: String, job: &CopyJob| {
        let job = job.clone();
        async move { shell.agents.copy(&node, &job).await }
    };
    work::execute::act(shell, holder, action, start).await
}
