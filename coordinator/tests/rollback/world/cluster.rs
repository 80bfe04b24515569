//! What the cluster does by itself as time passes.

use super::*;

impl World {
    /// A second passes: the cluster does its part.
    pub fn tick(&mut self) {
        self.refuses = self.phase() == Some(RollbackPhase::RollingBack);
        self.now = self.now.checked_add(SignedDuration::from_secs(1)).unwrap();
        self.kubelet();
        let held = !self.pods.is_empty();
        if !held && self.users.is_empty() {
            self.target = self.target.take().filter(|target| !target.deleting);
        }
        if !held {
            let kept = |claim: &RestoredSeen| claim.deleting_since.is_none();
            self.restored = self.restored.take().filter(kept);
        }
        self.work();
    }

    fn kubelet(&mut self) {
        let agents = &self.agents;
        let busy = |pod: &HolderSeen| {
            let mut jobs = agents.values().flat_map(|agent| agent.jobs.values());
            jobs.any(|(job, uid)| *uid == pod.uid && at_work(&job.state))
        };
        let down = |pod: &HolderSeen| pod.node.as_deref().is_some_and(|node| !agents[node].up);
        self.pods
            .retain(|pod| pod.deleting_since.is_none() || busy(pod) || down(pod));
        let up = NODES.into_iter().find(|node| agents[node].up);
        let available = self
            .snapshot
            .as_ref()
            .is_some_and(|snapshot| snapshot.ready);
        let mut attached = None;
        for pod in &mut self.pods {
            if pod.state != HolderState::Waiting(None) || pod.deleting_since.is_some() {
                continue;
            }
            let (Some(restored), Some(node)) = (&mut self.restored, up) else {
                continue;
            };
            if restored.deleting_since.is_some()
                || (restored.volume_name.is_none() && !available)
                || self.target.as_ref().is_none_or(|target| target.deleting)
            {
                continue;
            }
            restored.volume_name = Some(format!("pv-of-{}", restored.uid));
            pod.node = Some(node.to_owned());
            pod.state = HolderState::Holding;
            attached = Some(node);
        }
        // A volume is attached to one node: others write to it no more.
        for (node, agent) in &mut self.agents {
            if attached.is_some_and(|attached| attached != *node) {
                for (job, _) in agent.jobs.values_mut() {
                    job.state = JobState::Failed(failure("VolumeGone", true));
                }
            }
        }
        let now = self.now;
        for (node, agent) in &self.agents {
            // A node that is gone for long is deleted, and its pods with it.
            if !agent.up && now.duration_since(agent.since) > SignedDuration::from_mins(20) {
                self.pods.retain(|pod| pod.node.as_deref() != Some(*node));
            }
        }
    }

    /// The agents' jobs go on; those that belong to nobody are collected.
    fn work(&mut self) {
        if self.rollback.is_none() {
            let up = self.agents.values_mut().filter(|agent| agent.up);
            up.for_each(|agent| agent.jobs.clear());
        }
        let writers = self
            .agents
            .values()
            .filter(|agent| agent.up)
            .flat_map(|agent| agent.jobs.values());
        let at_once = writers.filter(|(job, _)| at_work(&job.state)).count();
        assert!(at_once <= 1, "two jobs write to one volume");
        for agent in self.agents.values_mut().filter(|agent| agent.up) {
            for (job, pod) in agent.jobs.values_mut() {
                if !at_work(&job.state) {
                    continue;
                }
                let done = job.progress.done;
                if self.failures.first().is_some_and(|(at, _)| *at <= done) {
                    let (_, failure) = self.failures.remove(0);
                    job.state = JobState::Failed(failure);
                    continue;
                }
                if !self.pods.iter().any(|seen| seen.uid == *pod) {
                    job.state = JobState::Failed(failure("VolumeGone", true));
                    continue;
                }
                assert!(self.users.is_empty(), "written under a pod");
                job.progress = Progress {
                    total: 100,
                    done: done + 25,
                    received: done + 25,
                    written: done / 3,
                };
                self.held = Held::Both;
                job.state = JobState::Transferring;
                if job.progress.done == 100 {
                    self.held = Held::Snapshot;
                    job.state = JobState::Succeeded;
                }
            }
        }
    }

    /// Whether nothing of the rollback is left.
    pub fn is_tidy(&self) -> bool {
        let up = self.agents.values().filter(|agent| agent.up);
        self.pods.is_empty()
            && self.restored.is_none()
            && up.map(|agent| agent.jobs.len()).sum::<usize>() == 0
    }
}
