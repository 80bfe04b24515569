//! What the cluster does by itself as time passes.

use super::*;

impl World {
    /// A second passes: the cluster does its part.
    pub fn tick(&mut self) {
        self.now = self.now.checked_add(SignedDuration::from_secs(1)).unwrap();
        self.scheduler();
        self.kubelet();
        self.work();
        self.storage();
        self.collect();
        self.check();
    }

    /// A consumer of the disk's claim is placed, and placed again.
    fn scheduler(&mut self) {
        let turn = self.now.as_second() % 5 == 0;
        let node = NODES[self.now.as_second() as usize % NODES.len()];
        if let Some(claim) = self.claims.get_mut(DISK)
            && self.waits
            && self.consumed
            && turn
            && claim.node.is_none()
            && claim.volume.is_none()
        {
            claim.node = Some(node.to_owned());
            claim.version += 1;
        }
    }

    /// Volumes are made, bound, lost and reclaimed.
    pub(super) fn storage(&mut self) {
        self.provision();
        self.bind();
        let uids: Vec<&String> = self.claims.values().map(|claim| &claim.uid).collect();
        let volumes = &mut self.volumes;
        volumes.retain(|_, volume| uids.contains(&&volume.claim));
    }

    fn provision(&mut self) {
        let names: Vec<String> = self.claims.keys().cloned().collect();
        for name in names {
            let claim = &self.claims[&name];
            let ready = claim.volume.is_none()
                && claim.ours
                && claim.deleting.is_none()
                && (!self.waits || claim.node.is_some());
            if !ready {
                continue;
            }
            let content = match &claim.filled {
                Filled::ByUs => continue,
                Filled::Empty => Content::Empty,
                Filled::Cloned(_) if !self.csi => Content::Empty,
                Filled::Cloned(origin) => {
                    let origin = self.claims.get(origin).and_then(|c| c.volume.as_ref());
                    let Some(origin) = origin else { continue };
                    self.volumes[origin].content.clone()
                }
            };
            let clones = self.clones || content == Content::Empty;
            let pv = self.uid("pv");
            let claim = self.claims.get_mut(&name).unwrap();
            if !clones {
                claim.refused = true;
                continue;
            }
            claim.volume = Some(pv.clone());
            claim.version += 1;
            let volume = Volume {
                version: 1,
                claim: claim.uid.clone(),
                content,
                handed_over: false,
            };
            self.volumes.insert(pv, volume);
        }
    }

    fn bind(&mut self) {
        for (name, volume) in &self.volumes {
            for claim in self.claims.values_mut() {
                if claim.uid == volume.claim && claim.volume.is_none() {
                    claim.volume = Some(name.clone());
                    claim.version += 1;
                }
                if claim.volume.as_ref() == Some(name) && claim.uid != volume.claim && !claim.lost {
                    claim.lost = true;
                    claim.version += 1;
                }
            }
        }
        for claim in self.claims.values_mut() {
            let gone = |name: &String| !self.volumes.contains_key(name);
            if claim.volume.as_ref().is_some_and(gone) {
                claim.lost = true;
            }
        }
    }

    /// What is being deleted goes once nothing uses it, and what the disk
    /// owned goes after it.
    fn collect(&mut self) {
        let now = self.now;
        if self.disk.is_none()
            && !self.orphan
            && let Some(claim) = self.claims.get_mut(DISK).filter(|claim| claim.ours)
        {
            claim.deleting.get_or_insert(now);
        }
        // Jobs of nobody, on an agent that was away, are the collector's.
        if self.disk.is_none() && now.as_second() % 30 == 0 {
            for agent in self.agents.values_mut().filter(|agent| agent.up) {
                agent.jobs.clear();
            }
        }
        let used = !self.pods.is_empty();
        let held = [names::prime_claim(UID), ORIGIN.to_owned()];
        self.claims
            .retain(|name, claim| claim.deleting.is_none() || (used && held.contains(name)));
        self.storage();
    }

    /// Pods start and end.
    fn kubelet(&mut self) {
        let agents = &self.agents;
        let busy = |pod: &HolderSeen| {
            let open = |agent: &Agent| {
                let mut jobs = agent.jobs.values();
                jobs.any(|(job, copy)| copy.pod_uid == pod.uid && at_work(&job.state))
            };
            agents.values().any(open)
        };
        let down = |pod: &HolderSeen| pod.node.as_deref().is_some_and(|node| !agents[node].up);
        self.pods
            .retain(|pod| pod.deleting_since.is_none() || busy(pod) || down(pod));
        let prime = self.claims.get(&names::prime_claim(UID));
        let bound = prime.is_some_and(|claim| claim.volume.is_some() && !claim.lost)
            && self.claims.contains_key(ORIGIN);
        let up: Vec<&str> = NODES.into_iter().filter(|node| agents[node].up).collect();
        for pod in &mut self.pods {
            let new = pod.state == HolderState::Waiting(None) && pod.deleting_since.is_none();
            if let Some(node) = up.first().filter(|_| new && bound) {
                pod.node = Some((*node).to_owned());
                pod.state = HolderState::Holding;
            }
        }
        let now = self.now;
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
            for (job, copy) in agent.jobs.values_mut() {
                if !at_work(&job.state) {
                    continue;
                }
                let held = self.pods.iter().any(|pod| pod.uid == copy.pod_uid);
                let source = self.volumes.get(&copy.source.name);
                let source = source.map(|volume| volume.content.clone());
                let target = self.volumes.get_mut(&copy.target.name);
                let (true, Some(source), Some(target)) = (held, source, target) else {
                    job.state = JobState::Failed(failure("VolumeGone", true));
                    continue;
                };
                target.content = Content::Part;
                job.progress.done += 25;
                job.state = match job.progress.done {
                    0..=25 => JobState::Preparing,
                    26..=100 => JobState::Transferring,
                    _ => JobState::Succeeded,
                };
                if job.progress.done == 50 && !self.failures.is_empty() {
                    let failure = self.failures.remove(0);
                    if !failure.retryable {
                        self.failures.insert(0, failure.clone());
                    }
                    job.state = JobState::Failed(failure);
                }
                if job.state == JobState::Succeeded {
                    target.content = source;
                }
            }
        }
    }
}
