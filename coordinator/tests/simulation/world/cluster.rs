//! What the cluster does by itself as time passes.

use super::*;

impl World {
    /// A second passes: the cluster does its part.
    pub fn tick(&mut self) {
        self.now = self.now.checked_add(SignedDuration::from_secs(1)).unwrap();
        self.kubelet();
        let uses_claim = !self.pods.is_empty();
        if self
            .claim
            .as_ref()
            .is_some_and(|claim| claim.deleting_since.is_some())
            && !uses_claim
        {
            self.claim = None;
        }
        self.work();
    }

    /// Pods start and end, and bind the claim where they start.
    fn kubelet(&mut self) {
        let agents = &self.agents;
        let busy = |pod: &HolderSeen| {
            let open = |agent: &Agent| {
                agent
                    .jobs
                    .values()
                    .any(|(job, uid)| *uid == pod.uid && at_work(&job.state))
            };
            agents.values().any(open)
        };
        let down = |pod: &HolderSeen| pod.node.as_deref().is_some_and(|node| !agents[node].up);
        self.pods
            .retain(|pod| pod.deleting_since.is_none() || busy(pod) || down(pod));
        let up: Vec<&str> = NODES.into_iter().filter(|node| agents[node].up).collect();
        let now = self.now;
        for pod in &mut self.pods {
            if pod.state != HolderState::Waiting(None) || pod.deleting_since.is_some() {
                continue;
            }
            if let (Some(claim), Some(node)) = (&mut self.claim, up.first()) {
                claim.volume_name = Some(format!("pv-of-{}", claim.uid));
                pod.node = Some((*node).to_owned());
                pod.state = HolderState::Holding;
            }
        }
        for (node, agent) in &self.agents {
            // A node that is gone for long is deleted, and its pods with it.
            let gone = !agent.up && now.duration_since(agent.since) > SignedDuration::from_mins(20);
            if gone {
                self.pods.retain(|pod| pod.node.as_deref() != Some(*node));
            }
        }
    }

    /// The agents' jobs go on.
    fn work(&mut self) {
        for agent in self.agents.values_mut().filter(|agent| agent.up) {
            for (job, pod) in agent.jobs.values_mut() {
                if !at_work(&job.state) {
                    continue;
                }
                if !self.pods.iter().any(|seen| seen.uid == *pod) {
                    job.state = JobState::Failed(failure("VolumeGone", true));
                    continue;
                }
                if job.awaiting_access {
                    continue;
                }
                job.progress.done += 25;
                job.state = match job.progress.done {
                    0..=25 => JobState::Preparing,
                    26..=75 => JobState::Transferring,
                    76..=100 => JobState::Verifying,
                    _ => JobState::Succeeded,
                };
                if job.progress.done == 50 && !self.failures.is_empty() {
                    job.state = JobState::Failed(take(&mut self.failures));
                }
                if job.state == JobState::Succeeded
                    && let Some(claim) = &self.claim
                {
                    self.complete.insert(claim.uid.clone());
                }
            }
        }
    }
}

/// The next failure; one that is terminal stays, however often it is asked.
pub(super) fn take(failures: &mut Vec<Failure>) -> Failure {
    if failures[0].retryable {
        failures.remove(0)
    } else {
        failures[0].clone()
    }
}
