//! What the coordinator's actions do to the world.

use super::*;

impl World {
    /// What an agent has to be told to reach the object, or what is in the way.
    fn reach(
        &self,
        seen: &Observation,
        object: &WantedStored,
    ) -> Result<Resolved<Stored>, Box<Verdict>> {
        let store = DefaultStore::default();
        let scope = Scope {
            namespace: "team",
            store: &store,
        };
        let keys = |version: u32| Content {
            version: version.to_string(),
            values: [("accessKeyId", "id"), ("secretKey", "s3cret")]
                .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()))
                .into(),
        };
        let objects: Objects = references_of_object(object, scope)
            .into_iter()
            .map(|reference| (reference, self.secret.map(keys)))
            .collect();
        resolve_object(object, scope, &objects).map_err(|problem| Box::new(told(seen, problem)))
    }

    pub(super) fn act(&mut self, seen: &Observation, action: &Action) -> Option<Verdict> {
        let now = self.now;
        match action {
            Action::AddFinalizer => {
                let meta = &mut self.export.as_mut()?.metadata;
                let finalizers = meta.finalizers.get_or_insert_default();
                finalizers.push(names::FINALIZER.into());
            }
            Action::RemoveFinalizer => {
                let deleted = &self.export.as_ref()?.metadata.deletion_timestamp;
                assert!(deleted.is_some());
                self.export = None;
            }
            Action::Check(object) => {
                return match self.reach(seen, object) {
                    Ok(reached) => still_rejected(seen, &reached.secrets),
                    Err(waits) => Some(*waits),
                };
            }
            Action::CreateSnapshot { class } => {
                assert_eq!(class, "snaps");
                let uid = self.uid("snapshot");
                self.snapshot.get_or_insert(OwnSnapshot {
                    ours: true,
                    deleting_since: None,
                    seen: SnapshotSeen {
                        uid,
                        claim: Some("disk".into()),
                        ..SnapshotSeen::default()
                    },
                });
            }
            Action::DeleteSnapshot { uid } => {
                let same = |own: &&mut OwnSnapshot| own.seen.uid == *uid;
                if let Some(own) = self.snapshot.as_mut().filter(same) {
                    assert!(own.ours, "another's snapshot is deleted");
                    own.deleting_since.get_or_insert(now);
                }
            }
            Action::CreateRestored { size } => {
                assert_eq!(*size, 1 << 30);
                assert!(self.snapshot.as_ref().is_some_and(|own| own.is_usable()));
                let uid = self.uid("restored");
                self.restored.get_or_insert(RestoredSeen {
                    uid,
                    since: Some(now),
                    mode: VolumeMode::Block,
                    capacity: 1 << 30,
                    ..RestoredSeen::default()
                });
            }
            Action::DeleteRestored { uid } => {
                if let Some(claim) = self.restored.as_mut().filter(|claim| claim.uid == *uid) {
                    claim.deleting_since.get_or_insert(now);
                }
            }
            Action::Discard {
                node,
                object,
                upload_id,
            } => return Some(self.discard(seen, node, object, upload_id)),
            Action::Sign { node, object, .. } => {
                assert!(self.agents[node.as_str()].up, "an agent asked that is away");
                if let Err(waits) = self.reach(seen, object) {
                    return Some(*waits);
                }
                self.signed = true;
                return Some(Verdict::Signed {
                    secret: "out-download".into(),
                    expires: now,
                });
            }
            Action::Work(action) => return self.act_for_work(seen, action),
        }
        None
    }

    fn discard(
        &mut self,
        seen: &Observation,
        node: &str,
        object: &WantedStored,
        upload_id: &str,
    ) -> Verdict {
        assert!(self.agents[node].up, "an agent asked that is away");
        let secrets = match self.reach(seen, object) {
            Ok(reached) => reached.secrets,
            Err(waits) => return *waits,
        };
        if self.store.down {
            return undiscarded(seen, failure("StoreUnavailable", true), &secrets);
        }
        if self.secret < Some(self.store.accepts) {
            let failure = failure("SignatureDoesNotMatch", false);
            return undiscarded(seen, failure, &secrets);
        }
        self.store.uploads.remove(upload_id);
        Verdict::Discarded
    }

    fn act_for_work(
        &mut self,
        seen: &Observation,
        action: &work::Action<Upload>,
    ) -> Option<Verdict> {
        let now = self.now;
        match action {
            work::Action::CreateHolder => {
                let name = seen.holder_name();
                if self.pods.iter().all(|pod| pod.name != name) {
                    let uid = self.uid("pod");
                    self.pods.push(HolderSeen {
                        name,
                        uid,
                        since: None,
                        deleting_since: None,
                        node: None,
                        state: HolderState::Waiting(None),
                    });
                }
                None
            }
            work::Action::DeleteHolder { name, uid } => {
                let mut pods = self.pods.iter_mut();
                if let Some(pod) = pods.find(|pod| pod.name == *name && pod.uid == *uid) {
                    pod.deleting_since.get_or_insert(now);
                }
                None
            }
            work::Action::StartJob { node, job } => Some(self.start(seen, node, job)),
            work::Action::CancelJob { node, job_id } => {
                let agent = self.agents.get_mut(node.as_str())?;
                assert!(agent.up, "an agent asked that is away");
                let work = agent.jobs.remove(job_id)?;
                if work.job.state == JobState::Verifying {
                    // The store was asked already.
                    self.complete(&work);
                    return None;
                }
                // With what it was let in by, the agent removes its parts.
                let accepted = work.access.is_some_and(|had| had >= self.store.accepts);
                if let Some(upload) = work.job.upload_id.filter(|_| accepted)
                    && !self.store.down
                {
                    self.store.uploads.remove(&upload);
                }
                None
            }
        }
    }

    fn start(&mut self, seen: &Observation, node: &str, upload: &Upload) -> Verdict {
        let reached = match self.reach(seen, &upload.object) {
            Ok(reached) => reached,
            Err(waits) => return *waits,
        };
        let job = &upload.job;
        let directly = seen.read_from() == Some(ExportReadFrom::Volume);
        assert!(
            !directly || self.users.is_empty(),
            "a job started under a pod"
        );
        let pod = self.pods.iter().find(|pod| pod.uid == job.pod_uid);
        let holding = pod.is_some_and(|pod| pod.state == HolderState::Holding);
        assert!(holding, "a job started without its volume");
        let agent = self.agents.get_mut(node).unwrap();
        assert!(agent.up, "an agent asked that is away");
        if self.refusals && !agent.jobs.contains_key(&job.id) {
            return judge(seen, failure("AgentRefused", true));
        }
        if !agent.jobs.contains_key(&job.id) {
            let stored = self.store.uploads.intersection(&self.known).next();
            assert_eq!(stored, None, "a try began beside a former one's parts");
        }
        let work = agent.jobs.entry(job.id.clone()).or_insert_with(|| Work {
            job: Job {
                id: job.id.clone(),
                ..Job::default()
            },
            pod: job.pod_uid.clone(),
            directly,
            read: BTreeSet::new(),
            overwrite: job.overwrite,
            access: None,
        });
        work.job.awaiting_access = false;
        work.access = work.access.or(self.secret);
        Verdict::Exporting {
            node: node.to_owned(),
            job: work.job.clone(),
            secrets: Some(reached.secrets),
        }
    }
}
