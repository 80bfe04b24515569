//! What the cluster and the store do by themselves as time passes.

use super::*;

impl World {
    /// A second passes: the cluster does its part.
    pub fn tick(&mut self) {
        self.now = self.now.checked_add(SignedDuration::from_secs(1)).unwrap();
        let now = self.now;
        let writes = |(_, since): &(String, Timestamp)| now.duration_since(*since) > STARTS;
        if self.users.iter().any(writes) {
            self.disk += 1;
        }
        self.storage();
        self.kubelet();
        if self.export.is_none() {
            // Jobs that belong to nobody are collected.
            let up = self.agents.values_mut().filter(|agent| agent.up);
            up.for_each(|agent| agent.jobs.clear());
        }
        for node in NODES {
            if self.agents[node].runs {
                self.work(node);
            }
        }
    }

    /// Snapshots are taken, claims go.
    fn storage(&mut self) {
        let now = self.now;
        if let Some(own) = self.snapshot.as_mut().filter(|own| !own.seen.ready) {
            if self.snapshots_fail {
                own.seen.problem = Some("no room".into());
            } else if self.target.is_some() {
                own.seen.ready = true;
                own.seen.problem = None;
                own.seen.taken = Some(now);
                own.seen.restore_size = Some(1 << 30);
                self.snapshot_holds = self.disk;
            }
        }
        self.snapshot = self
            .snapshot
            .take()
            .filter(|own| own.deleting_since.is_none());
        if self.pods.is_empty() {
            let kept = |claim: &RestoredSeen| claim.deleting_since.is_none();
            self.restored = self.restored.take().filter(kept);
            self.target = self.target.take().filter(|target| !target.deleting);
        }
    }

    fn kubelet(&mut self) {
        let now = self.now;
        let agents = &self.agents;
        let busy = |pod: &HolderSeen| {
            let mut jobs = agents.values().flat_map(|agent| agent.jobs.values());
            jobs.any(|work| work.pod == pod.uid && at_work(&work.job.state))
        };
        let down = |pod: &HolderSeen| pod.node.as_deref().is_some_and(|node| !agents[node].up);
        self.pods
            .retain(|pod| pod.deleting_since.is_none() || busy(pod) || down(pod));
        let read_from = self
            .export
            .as_ref()
            .and_then(|export| export.status.as_ref()?.read_from);
        let up = NODES.into_iter().find(|node| agents[node].up);
        let usable = self.snapshot.as_ref().is_some_and(|own| own.is_usable());
        for pod in &mut self.pods {
            if pod.state != HolderState::Waiting(None) || pod.deleting_since.is_some() {
                continue;
            }
            let Some(node) = up else { continue };
            if read_from == Some(ExportReadFrom::Snapshot) {
                let Some(restored) = &mut self.restored else {
                    continue;
                };
                if restored.deleting_since.is_some() || (restored.volume_name.is_none() && !usable)
                {
                    continue;
                }
                if restored.volume_name.is_none() {
                    self.restored_holds = self.snapshot_holds;
                    restored.volume_name = Some(format!("pv-of-{}", restored.uid));
                }
            } else if self.target.as_ref().is_none_or(|target| target.deleting) {
                continue;
            }
            pod.node = Some(node.to_owned());
            pod.state = HolderState::Holding;
        }
        for (node, agent) in &self.agents {
            // A node that is gone for long is deleted, and its pods with it.
            if !agent.up && now.duration_since(agent.since) > SignedDuration::from_mins(20) {
                self.pods.retain(|pod| pod.node.as_deref() != Some(*node));
            }
        }
    }

    /// The jobs of one agent go on.
    fn work(&mut self, node: &'static str) {
        let mut jobs = std::mem::take(&mut self.agents.get_mut(node).unwrap().jobs);
        for work in jobs.values_mut() {
            if at_work(&work.job.state) && !work.job.awaiting_access {
                self.work_on(work);
            }
        }
        self.agents.get_mut(node).unwrap().jobs = jobs;
    }

    fn work_on(&mut self, work: &mut Work) {
        let done = work.job.progress.done;
        if self.store.down {
            return self.fail(work, failure("StoreUnavailable", true));
        }
        if work.access < Some(self.store.accepts) {
            return self.fail(work, failure("SignatureDoesNotMatch", false));
        }
        if self.failures.first().is_some_and(|(at, _)| *at <= done) {
            let (_, failure) = self.failures.remove(0);
            return self.fail(work, failure);
        }
        if !self.pods.iter().any(|pod| pod.uid == work.pod) {
            return self.fail(work, failure("VolumeGone", true));
        }
        let upload = match &work.job.upload_id {
            None => {
                if self.store.foreign && !work.overwrite {
                    return self.fail(work, failure("ObjectExists", false));
                }
                let upload = self.uid("upload");
                self.store.uploads.insert(upload.clone());
                work.job.upload_id.insert(upload).clone()
            }
            Some(upload) => upload.clone(),
        };
        if !self.store.uploads.contains(&upload) {
            return self.fail(work, failure("NoSuchUpload", true));
        }
        if work.job.state == JobState::Verifying {
            return self.finish(work);
        }
        let reads = match work.directly {
            true => self.disk,
            false => self.restored_holds,
        };
        work.read.insert(reads);
        work.job.state = JobState::Transferring;
        work.job.progress = Progress {
            total: 100,
            done: done + 25,
            received: done + 25,
            written: done / 3,
        };
        if done + 25 >= 100 {
            work.job.state = JobState::Verifying;
        }
    }

    /// The store makes an object of what was stored, whoever asked for it.
    pub(super) fn complete(&mut self, work: &Work) {
        let upload = work.job.upload_id.as_ref();
        if upload.is_some_and(|upload| self.store.uploads.remove(upload)) {
            self.store.object = Some(work.read.len() == 1);
            self.store.foreign = false;
        }
    }

    fn finish(&mut self, work: &mut Work) {
        self.complete(work);
        work.job.state = JobState::Succeeded;
        work.job.upload_id = None;
        work.job.digest = Some("sha256:00".into());
        work.job.object = Some(ExportedObject {
            size: 33,
            virtual_size: 100,
            etag: Some("\"etag\"".into()),
            checksum: None,
            address: "http://s3.example:9000/vms/backup/disk".into(),
        });
    }

    /// A job fails; its parts go, where the store can be asked.
    fn fail(&mut self, work: &mut Work, failure: Failure) {
        let accepted = work.access >= Some(self.store.accepts);
        if let Some(upload) = &work.job.upload_id
            && accepted
            && !self.store.down
        {
            self.store.uploads.remove(upload);
            work.job.upload_id = None;
        }
        work.job.state = JobState::Failed(failure);
    }
}
