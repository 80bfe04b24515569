//! What a coordinator does to the world.

use super::*;

impl World {
    pub(super) fn act(&mut self, seen: &Observation, action: &Action) -> Option<Verdict> {
        let now = self.now;
        let prime = names::prime_claim(UID);
        match action {
            Action::AddFinalizer => {
                let meta = &mut self.disk.as_mut()?.metadata;
                let finalizers = meta.finalizers.get_or_insert_default();
                finalizers.push(names::FINALIZER.into());
            }
            Action::RemoveFinalizer => {
                assert!(self.disk.as_ref()?.metadata.deletion_timestamp.is_some());
                self.disk = None;
            }
            Action::CreateClaim(new) => {
                let filled = match new.method {
                    hypercloud_api::DiskMethod::Clone => Filled::Cloned(ORIGIN.into()),
                    _ => Filled::ByUs,
                };
                let claim = self.claim(filled, new.size, true);
                self.claims.entry(DISK.into()).or_insert(claim);
            }
            Action::CreatePrime(new) => {
                let filled = match new.from {
                    Some(_) => Filled::Cloned(ORIGIN.into()),
                    None => Filled::Empty,
                };
                let mut claim = self.claim(filled, new.size, true);
                claim.node = new.node.clone();
                self.claims.entry(prime).or_insert(claim);
            }
            Action::DeleteClaim {
                uid,
                resource_version,
            } => {
                let claim = self.claims.get_mut(DISK)?;
                if claim.uid == *uid && claim.version.to_string() == *resource_version {
                    assert!(claim.ours, "somebody else's claim deleted");
                    assert!(claim.volume.is_none(), "a disk deleted");
                    claim.deleting.get_or_insert(now);
                }
            }
            Action::DeletePrime { uid } => {
                let claim = self.claims.get_mut(&prime)?;
                if claim.uid == *uid {
                    claim.deleting.get_or_insert(now);
                }
            }
            Action::PlaceAgain {
                resource_version,
                node,
            } => {
                let claim = self.claims.get_mut(DISK)?;
                if claim.version.to_string() == *resource_version {
                    claim.node.clone_from(node);
                    claim.version += 1;
                }
            }
            Action::HandOver {
                volume,
                resource_version,
                claim_uid,
            } => {
                let seen = self.volumes.get_mut(volume)?;
                if seen.version.to_string() == *resource_version {
                    seen.version += 1;
                    seen.claim.clone_from(claim_uid);
                    seen.handed_over = true;
                    let open = self.pods.iter().filter(|pod| !self.is_lost(pod));
                    assert_eq!(open.count(), 0, "handed over while it is mounted");
                }
            }
            Action::CreateHolder(_) => {
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
            }
            Action::Copy(action) => return self.act_on_copy(action),
        }
        None
    }

    fn act_on_copy(&mut self, action: &copy::Action) -> Option<Verdict> {
        let now = self.now;
        match action {
            copy::Action::CreateHolder => panic!("without volumes"),
            copy::Action::DeleteHolder { name, uid } => {
                let mut pods = self.pods.iter_mut();
                if let Some(pod) = pods.find(|pod| pod.name == *name && pod.uid == *uid) {
                    pod.deleting_since.get_or_insert(now);
                }
                None
            }
            copy::Action::StartJob { node, job } => {
                let pod = self.pods.iter().find(|pod| pod.uid == job.pod_uid);
                let holding = pod.is_some_and(|pod| pod.state == HolderState::Holding);
                assert!(holding, "a job started without its volumes");
                let agent = self.agents.get_mut(node.as_str())?;
                let new = Job {
                    id: job.id.clone(),
                    state: JobState::Pending,
                    progress: Progress {
                        total: 100,
                        ..Progress::default()
                    },
                    ..Job::default()
                };
                let entry = agent.jobs.entry(job.id.clone());
                let (started, _) = entry.or_insert((new, job.clone()));
                Some(Verdict::Copying {
                    node: node.clone(),
                    job: started.clone(),
                })
            }
            copy::Action::CancelJob { node, job_id } => {
                let agent = self.agents.get_mut(node.as_str())?;
                assert!(agent.up, "an agent asked that is away");
                agent.jobs.remove(job_id);
                None
            }
        }
    }
}
