//! What becomes of a try that failed. Pure.

use hypercloud_api::conditions::find;

use super::COMPLETE;
use super::observation::Observation;
use super::verdict::Verdict;
use crate::access::rejection::{REJECTED, Words, is_doubted, is_rejection, remedy};
use crate::agents::Failure;
use crate::work::retry::{MAX_FAILURES, given_up, is_another};

/// What was not let in, in words.
const WORDS: Words = Words {
    work: "export",
    resource: "export",
    field: "secretRef",
};

/// The verdict on the present try, which failed.
pub fn judge(seen: &Observation, failure: Failure) -> Verdict {
    let upload = seen.present_upload();
    let secrets = upload.map_or(&[][..], |upload| &upload.credentials);
    judge_shown(seen, failure, secrets)
}

/// The verdict on the present try, which failed when these `secrets` were
/// shown. Where they were not accepted, others may be: they are waited for,
/// because asking again with the same may lock an account out.
pub fn judge_shown(seen: &Observation, failure: Failure, secrets: &[String]) -> Verdict {
    let retry = seen.status().and_then(|status| status.retry.as_ref());
    let upload_id = left(seen);
    if !secrets.is_empty() && is_rejection(&failure) {
        if is_doubted(retry, &failure, MAX_FAILURES) {
            return Verdict::TryFailed { failure, upload_id };
        }
        return Verdict::Rejected {
            message: format!("{}; {}", failure.message, remedy(secrets, WORDS)),
            secrets: secrets.to_vec(),
            upload_id,
        };
    }
    // Nobody told any more what was shown: the next try will.
    let unknown = secrets.is_empty() && is_guarded(seen) && is_rejection(&failure);
    let failure = Failure {
        retryable: failure.retryable || unknown,
        ..failure
    };
    if is_another(retry, &failure) {
        return Verdict::TryFailed { failure, upload_id };
    }
    let (reason, message) = given_up(&failure);
    Verdict::Failed {
        reason,
        message,
        upload_id,
    }
}

/// Whether a Secret lets in at the store.
fn is_guarded(seen: &Observation) -> bool {
    let spec = &seen.export.spec;
    let store = &spec.object_store;
    let claimed = store.object_bucket_claim.is_some();
    let operators = store.endpoint.is_none() && !claimed && seen.default_keys;
    spec.secret_ref.is_some() || claimed || operators
}

/// The verdict on `secrets` that are about to be shown, where they were
/// rejected already. What people were told then is told again: something else
/// may have been in the way since, and have been put right.
pub fn still_rejected(seen: &Observation, secrets: &[String]) -> Option<Verdict> {
    let status = seen.status()?;
    if secrets.is_empty() || status.rejected_credentials != secrets {
        return None;
    }
    let told = find(&status.conditions, COMPLETE).filter(|told| told.reason == REJECTED);
    let again = || format!("the store did not let in; {}", remedy(secrets, WORDS));
    Some(Verdict::Rejected {
        message: told.map_or_else(again, |told| told.message.clone()),
        secrets: secrets.to_vec(),
        upload_id: None,
    })
}

/// The present try's upload, as far as parts of it may be in the store.
pub fn left(seen: &Observation) -> Option<String> {
    let upload = seen.present_upload()?;
    match seen.agents.job(&upload.node_name, &upload.job_id) {
        Some(job) => job.upload_id.clone(),
        None => upload.upload_id.clone(),
    }
}
