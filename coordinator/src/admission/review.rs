//! An `AdmissionReview`: the request read, and the answer written. Pure.

use hypercloud_api::{HyperCloudStorageSpec, HyperCloudStorageStatus};
use hypercloud_storage::admission::{Ground, Refusal, concerns, refusals, warnings};
use serde::Deserialize;
use serde_json::{Value, json};

/// How many refusals or warnings are told one by one.
const TOLD: usize = 8;

/// The API of the reviews that are understood.
const API_VERSION: &str = "admission.k8s.io/v1";

/// What is no review of a `HyperCloudStorage`.
#[derive(Debug, thiserror::Error)]
pub enum NoReview {
    /// It is not even JSON of that shape.
    #[error("not an AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    /// It is of another version or kind.
    #[error("not an AdmissionReview of {API_VERSION} with a request")]
    Other,
    /// It is about something else.
    #[error("{0} are not judged here")]
    Resource(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    resource: Resource,
    #[serde(default)]
    sub_resource: String,
    operation: String,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    group: String,
    resource: String,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Review {
    /// What the API server knows it by.
    pub uid: String,
    /// What is asked.
    pub question: Question,
}

/// What is asked of a review.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Nothing that the cluster has a say in.
    None {
        /// What is told all the same.
        warnings: Vec<String>,
    },
    /// Whether this may be.
    May(Box<Change>),
    /// The specification cannot be read.
    Malformed(String),
}

/// A specification that is made or changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The one before, of a resource that is there.
    pub old: Option<HyperCloudStorageSpec>,
    /// The one that is asked for.
    pub new: HyperCloudStorageSpec,
    /// The status of the resource that is there.
    pub status: HyperCloudStorageStatus,
}

/// What came of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be.
    Allowed {
        /// What whoever applies is told.
        warnings: Vec<String>,
    },
    /// It may not.
    Refused(Vec<Refusal>),
    /// It could not be judged.
    Unjudged(String),
}

impl Verdict {
    /// The verdict in one word.
    pub fn reason(&self) -> &str {
        match self {
            Self::Allowed { .. } => "Allowed",
            Self::Refused(refusals) => refusals.first().map_or("Refused", |first| first.reason),
            Self::Unjudged(_) => "AdmissionUnavailable",
        }
    }
}

/// Reads a request.
///
/// # Errors
/// What is no review of a `HyperCloudStorage`.
pub fn read(body: &[u8]) -> Result<Review, NoReview> {
    let written: Written = serde_json::from_slice(body)?;
    if written.api_version != API_VERSION || written.kind != "AdmissionReview" {
        return Err(NoReview::Other);
    }
    let request = written.request.ok_or(NoReview::Other)?;
    let Resource { group, resource } = &request.resource;
    if (group.as_str(), resource.as_str()) != ("hypercloud.tmaxanc.com", "hypercloudstorages") {
        return Err(NoReview::Resource(format!("{resource} of {group:?}")));
    }
    Ok(Review {
        question: question(&request),
        uid: request.uid,
    })
}

fn question(request: &Request) -> Question {
    let none = Question::None {
        warnings: Vec::new(),
    };
    let (old, new) = (&request.old_object, &request.object);
    let is_write = matches!(request.operation.as_str(), "CREATE" | "UPDATE");
    let is_going = !new["metadata"]["deletionTimestamp"].is_null();
    // Before anything is read: what is the same may be what nobody can read.
    if !is_write || !request.sub_resource.is_empty() || is_going || old["spec"] == new["spec"] {
        return none;
    }
    let read = |object: &Value| HyperCloudStorageSpec::deserialize(&object["spec"]);
    let new = match read(new) {
        Ok(spec) => spec,
        Err(error) => return Question::Malformed(error.to_string()),
    };
    // One that was written under another definition is as good as none.
    let spec = read(old).ok();
    if !concerns(spec.as_ref(), &new) {
        let warnings = warnings(spec.as_ref(), &new, &Default::default());
        return Question::None { warnings };
    }
    let status = HyperCloudStorageStatus::deserialize(&old["status"]);
    Question::May(Box::new(Change {
        old: spec,
        new,
        status: status.unwrap_or_default(),
    }))
}

/// Whether the change may be on this ground.
pub fn judge(change: &Change, ground: Ground<'_>) -> Verdict {
    let refusals = refusals(change.old.as_ref(), &change.new, ground);
    if refusals.is_empty() {
        let warnings = warnings(change.old.as_ref(), &change.new, ground.known);
        return Verdict::Allowed { warnings };
    }
    Verdict::Refused(refusals)
}

/// Writes the answer.
pub fn answer(uid: &str, verdict: &Verdict) -> Value {
    let mut response = json!({"uid": uid, "allowed": false});
    let mut refuse = |code: u16, message: String| {
        response["status"] = json!({
            "status": "Failure", "code": code, "reason": verdict.reason(), "message": message,
        });
    };
    match verdict {
        Verdict::Allowed { warnings } => {
            response["allowed"] = json!(true);
            if !warnings.is_empty() {
                response["warnings"] = json!(first(warnings.iter().cloned()));
            }
        }
        Verdict::Refused(refusals) => {
            let told = refusals
                .iter()
                .map(|refusal| format!("{}: {}", refusal.reason, refusal.message));
            refuse(422, first(told).join("; "));
        }
        Verdict::Unjudged(why) => refuse(
            503,
            format!("this cannot be judged now, so nothing was changed: {why}; try again"),
        ),
    }
    json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
}

/// The first of many, and how many more there are.
fn first(told: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = told.len().saturating_sub(TOLD);
    let mut first: Vec<String> = told.take(TOLD).collect();
    if more > 0 {
        first.push(format!("and {more} more"));
    }
    first
}

#[cfg(test)]
mod tests;
