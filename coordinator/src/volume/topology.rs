//! Which nodes a volume can be attached to. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume,
};

/// What a volume asks of its node; none where any will do.
pub fn required(volume: &PersistentVolume) -> Option<&NodeSelector> {
    let affinity = volume.spec.as_ref()?.node_affinity.as_ref()?;
    affinity.required.as_ref()
}

/// Names of the `nodes` that `selector` takes, sorted.
pub fn matching(selector: &NodeSelector, nodes: &[Node]) -> Vec<String> {
    let mut names: Vec<String> = nodes
        .iter()
        .filter(|node| {
            let mut terms = selector.node_selector_terms.iter();
            terms.any(|term| takes(term, node))
        })
        .filter_map(|node| node.metadata.name.clone())
        .collect();
    names.sort();
    names
}

/// Whether a term takes `node`: an empty one takes none.
fn takes(term: &NodeSelectorTerm, node: &Node) -> bool {
    let none = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&none);
    let name = node.metadata.name.clone().unwrap_or_default();
    let fields = BTreeMap::from([("metadata.name".to_owned(), name)]);
    let by_label = term.match_expressions.iter().flatten();
    let by_field = term.match_fields.iter().flatten();
    let mut all = by_label
        .map(|requirement| holds(requirement, labels))
        .chain(by_field.map(|requirement| holds(requirement, &fields)))
        .peekable();
    all.peek().is_some() && all.all(|holds| holds)
}

fn holds(requirement: &NodeSelectorRequirement, values: &BTreeMap<String, String>) -> bool {
    let value = values.get(&requirement.key);
    let listed = requirement.values.as_deref().unwrap_or_default();
    let is_listed = value.is_some_and(|value| listed.contains(value));
    let number = |text: &String| text.parse::<i64>().ok();
    let bound = listed.first().and_then(number);
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => value
            .and_then(number)
            .zip(bound)
            .is_some_and(|(v, b)| v > b),
        "Lt" => value
            .and_then(number)
            .zip(bound)
            .is_some_and(|(v, b)| v < b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn nodes() -> Vec<Node> {
        [("n2", "b", "7"), ("n1", "a", "5")]
            .map(|(name, zone, rank)| {
                let labels = json!({"zone": zone, "rank": rank});
                serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}}))
                    .unwrap()
            })
            .into()
    }

    fn found(terms: Value) -> Vec<String> {
        let selector = serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap();
        matching(&selector, &nodes())
    }

    fn by(key: &str, operator: &str, values: &[&str]) -> Vec<String> {
        found(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
    }

    #[test]
    fn every_operator_is_known() {
        assert_eq!(by("zone", "In", &["a", "c"]), ["n1"]);
        assert_eq!(by("zone", "NotIn", &["a"]), ["n2"]);
        assert_eq!(by("zone", "Exists", &[]), ["n1", "n2"]);
        assert_eq!(by("disk", "DoesNotExist", &[]), ["n1", "n2"]);
        assert_eq!(by("rank", "Gt", &["5"]), ["n2"]);
        assert_eq!(by("rank", "Lt", &["7"]), ["n1"]);
        assert_eq!(by("zone", "Like", &["a"]), Vec::<String>::new());
    }

    #[test]
    fn terms_are_alternatives_and_what_stands_in_one_is_not() {
        let zone = |value| json!({"key": "zone", "operator": "In", "values": [value]});
        let name = json!({"key": "metadata.name", "operator": "In", "values": ["n2"]});
        let both = json!([{"matchExpressions": [zone("a")]}, {"matchFields": [name]}]);
        assert_eq!(found(both), ["n1", "n2"]);
        let neither = json!([{"matchExpressions": [zone("a"), zone("b")]}, {}]);
        assert_eq!(found(neither), Vec::<String>::new());
    }

    #[test]
    fn a_volume_without_affinity_is_everywhere() {
        let volume = |spec: Value| -> PersistentVolume {
            serde_json::from_value(json!({"metadata": {"name": "pv"}, "spec": spec})).unwrap()
        };
        assert_eq!(required(&volume(json!({}))), None);
        let terms = json!({"nodeSelectorTerms": [{}]});
        let bound = volume(json!({"nodeAffinity": {"required": terms}}));
        assert!(required(&bound).is_some());
    }
}
