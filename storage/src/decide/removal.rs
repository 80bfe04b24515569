//! The decision about a storage that is being deleted.

use hypercloud_api::StorageState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Decision, View, ground};
use crate::plan::deletion::{self, ANNOTATION_CLEANED, Cleaned, Step, cleanup_jobs};
use crate::refusal;
use crate::state::{self, Problem};

/// What is done and said of the deletion.
pub(super) fn decide(view: &View<'_>) -> Decision {
    let mut status = view.resource.status.clone().unwrap_or_default();
    let cleanup = view.resource.spec.cleanup.as_ref();
    let jobs = cleanup_jobs(view.seen);
    let annotations = view.resource.metadata.annotations.as_ref();
    let cleaned = annotations.and_then(|all| all.get(ANNOTATION_CLEANED));
    let step = deletion::next(&deletion::View {
        confirmed: cleanup.is_some_and(|cleanup| cleanup.confirmation.is_some()),
        definitions: cleanup
            .and_then(|cleanup| cleanup.definitions)
            .unwrap_or_default(),
        users: view.users,
        seen: view.seen,
        hosts: view.hosts,
        recorded: &status.cleanup_hosts,
        jobs: &jobs,
        cleaned: Cleaned(cleaned.map(String::as_str)),
        definitions_in_use: view.definitions_in_use,
        foreign_snapshots: view.foreign_snapshots,
    });
    let (reason, message, blockers) = standing(&step, view).unwrap_or_else(|| said(&step));
    if let Step::RecordHosts(hosts) = &step {
        status.cleanup_hosts.clone_from(hosts);
    }
    status.deletion_blockers = bounded(blockers);
    let problem = Problem {
        reason,
        message,
        waiting: true,
    };
    let whole = state::whole(&status.components, &[], &|_| None, Some(&problem));
    debug_assert_eq!(whole.state, StorageState::Deleting);
    let generation = view.resource.metadata.generation.unwrap_or_default();
    ground::write(&mut status, &whole, generation, &Time(view.now));
    Decision {
        status,
        deletion: Some(step),
        ..Decision::default()
    }
}

/// As many as the status has room for.
fn bounded(mut blockers: Vec<String>) -> Vec<String> {
    const MOST: usize = 100;
    if let Some(more) = blockers.len().checked_sub(MOST).filter(|more| *more > 0) {
        blockers.truncate(MOST);
        blockers.push(format!("and {more} more"));
    }
    blockers
}

/// What people are told of a step that the API server does not let happen.
fn standing(step: &Step, view: &View<'_>) -> Option<(&'static str, String, Vec<String>)> {
    let Step::Delete(keys) = step else {
        return None;
    };
    let (key, message) = refusal::standing(keys, view.refused)?;
    Some(("DeletionRefused", message, vec![key.to_string()]))
}

/// What people are told of a step.
fn said(step: &Step) -> (&'static str, String, Vec<String>) {
    match step {
        Step::Wait {
            reason,
            message,
            blockers,
        } => (reason, message.clone(), blockers.clone()),
        Step::Delete(keys) => {
            let first = keys.first().map(ToString::to_string).unwrap_or_default();
            let more = match keys.len() {
                0 | 1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            ("Removing", format!("{first}{more} is deleted"), Vec::new())
        }
        Step::RecordHosts(_) | Step::Confirm => (
            "Removing",
            "Ceph is told to destroy its data".to_owned(),
            Vec::new(),
        ),
        Step::Withdraw => (
            "Removing",
            "Rook is told to keep the data".to_owned(),
            Vec::new(),
        ),
        Step::Release => ("Released", "nothing is left to do".to_owned(), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_names_no_more_than_it_has_room_for() {
        let names = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>();
        assert_eq!(bounded(names(100)).len(), 100);
        let many = bounded(names(20_000));
        assert_eq!(many.len(), 101);
        assert_eq!(many[100], "and 19900 more");
    }
}
