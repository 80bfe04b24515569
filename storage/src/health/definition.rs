//! Whether a custom resource definition can be used.

use serde_json::Value;

use super::{Judgement, changing, hopeless, unhealthy};
use crate::object::Key;

/// How a definition is.
#[must_use]
pub fn judge(key: &Key, object: Option<&Value>) -> Judgement {
    let Some(object) = object else {
        return unhealthy("DefinitionMissing", format!("there is no {key}"));
    };
    let condition = |type_: &str| {
        let conditions = object["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == type_)
    };
    let says = |condition: &Value| condition["message"].as_str().unwrap_or_default().to_owned();
    if !object["metadata"]["deletionTimestamp"].is_null() {
        let message = format!("{key} is being deleted");
        return unhealthy("DefinitionDeleted", message);
    }
    if let Some(names) = condition("NamesAccepted")
        && names["status"] == "False"
    {
        let message = format!(
            "{key} and another definition have the same names: {}",
            says(names)
        );
        return hopeless("DefinitionConflict", message);
    }
    match condition("Established") {
        Some(established) if established["status"] == "True" => Judgement::healthy(),
        Some(other) => {
            let message = format!("{key} is not established: {}", says(other));
            changing("DefinitionNotEstablished", message)
        }
        None => changing(
            "DefinitionNotEstablished",
            format!("{key} is not established yet"),
        ),
    }
}
