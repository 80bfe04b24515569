//! The component for monitoring is text: what it has read, and alerts of, must
//! be what coordinator and agents show.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

/// What has the metrics read, and what alerts of them.
const MONITOR: &str = "manifests/components/monitoring/pod-monitor.yaml";
const ALERTS: &str = "manifests/components/monitoring/alerts.yaml";

/// Where metrics come from: what all names of a program begin with, what of
/// this its source leaves out, and the source.
const SOURCES: &[(&str, &str, &str)] = &[
    (
        "hypercloud_coordinator_",
        "hypercloud_coordinator_",
        "coordinator/src/metrics.rs",
    ),
    ("node_agent_", "", "node-agent/src/health.rs"),
];

/// Where the states of the storage are spelled.
const STATES: &str = "api/src/hypercloud_storage/status.rs";

/// Where the pods are that are read from.
const WORKLOADS: &[(&str, &str, &str)] = &[
    (
        "coordinator",
        "Deployment",
        "manifests/base/coordinator.yaml",
    ),
    ("node-agent", "DaemonSet", "manifests/base/node-agent.yaml"),
];

/// Metrics of others.
const FOREIGN: &[&str] = &["kube_daemonset_status_desired_number_scheduled"];

/// What the component below `root` has wrong.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let read = |path: &str| {
        let text = fs::read_to_string(root.join(path)).with_context(|| format!("read {path}"))?;
        anyhow::Ok(text)
    };
    let sources = SOURCES.iter().map(|(_, _, path)| read(path));
    let sources: Vec<String> = sources.collect::<Result<_, _>>()?;
    let mut found = of_alerts(&read(ALERTS)?, &sources, &read(STATES)?)?;
    let monitor = read(MONITOR)?;
    for (name, kind, path) in WORKLOADS {
        found.extend(of_port(&monitor, (name, kind), &read(path)?)?);
    }
    Ok(found)
}

/// Metrics and states in alerts that `sources` and `states` do not have.
fn of_alerts(alerts: &str, sources: &[String], states: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let rules: Value = serde_yaml::from_str(alerts)?;
    let groups = rules["spec"]["groups"].as_array().context("no groups")?;
    for rule in groups.iter().flat_map(|group| list(&group["rules"])) {
        let name = rule["alert"].as_str().unwrap_or_default();
        let expression = rule["expr"].as_str().unwrap_or_default();
        let metrics = metrics(expression);
        if metrics.is_empty() {
            found.push(format!("{ALERTS}: {name} goes by no metric"));
        }
        for metric in metrics.iter().filter(|metric| !exists(metric, sources)) {
            found.push(format!("{ALERTS}: {name}: nobody shows {metric}"));
        }
        for rest in expression.split("state=\"").skip(1) {
            let state = rest.split('"').next().unwrap_or_default();
            if !states.contains(&format!("\"{state}\"")) {
                found.push(format!("{ALERTS}: {name}: there is no state {state}"));
            }
        }
    }
    Ok(found)
}

/// The names of metrics in an expression: words with a low line that are not
/// in quotes and no functions.
fn metrics(expression: &str) -> Vec<String> {
    let mut found = Vec::new();
    for text in expression.split('"').step_by(2) {
        let mut rest = text;
        while let Some(begin) = rest.find(is_of_a_name) {
            let word = &rest[begin..];
            let end = word.find(|c| !is_of_a_name(c)).unwrap_or(word.len());
            rest = &word[end..];
            if word[..end].contains('_') && !rest.trim_start().starts_with('(') {
                found.push(word[..end].to_owned());
            }
        }
    }
    found
}

fn is_of_a_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Whether somebody shows a metric.
fn exists(metric: &str, sources: &[String]) -> bool {
    let ours = SOURCES
        .iter()
        .zip(sources)
        .any(|((begin, left_out, _), source)| {
            let code = source.split("#[cfg(test)]").next().unwrap_or_default();
            let word = metric.strip_prefix(left_out).unwrap_or(metric);
            metric.starts_with(begin) && code.contains(&format!("\"{word}\""))
        });
    ours || FOREIGN.contains(&metric)
}

/// What is wrong with the port of a workload's pods.
fn of_port(
    monitor: &str,
    (name, kind): (&str, &str),
    workload: &str,
) -> anyhow::Result<Vec<String>> {
    let monitor: Value = serde_yaml::from_str(monitor)?;
    let selected = &monitor["spec"]["selector"]["matchExpressions"][0]["values"];
    if !list(selected).iter().any(|value| value == name) {
        return Ok(vec![format!("{MONITOR}: {name} is not selected")]);
    }
    let port = &monitor["spec"]["podMetricsEndpoints"][0]["port"];
    let mut ports = Vec::new();
    for document in serde_yaml::Deserializer::from_str(workload) {
        let object = Value::deserialize(document)?;
        if object["kind"] == kind {
            let containers = list(&object["spec"]["template"]["spec"]["containers"]);
            let names = containers.iter().flat_map(|one| list(&one["ports"]));
            ports.extend(names.map(|port| port["name"].clone()));
        }
    }
    let wrong = (!ports.contains(port)).then(|| format!("{MONITOR}: {name} has no port {port}"));
    Ok(wrong.into_iter().collect())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alerts(expression: &str) -> Vec<String> {
        let text = format!("spec: {{groups: [{{rules: [{{alert: A, expr: {expression:?}}}]}}]}}");
        let sources = [
            r#"one("leading", "gauge") #[cfg(test)] "gone""#.to_owned(),
            r#"("node_agent_jobs_uploads", uploads)"#.to_owned(),
        ];
        of_alerts(&text, &sources, r#"Self::Error => "ERROR","#).unwrap()
    }

    #[test]
    fn what_is_shown_may_be_alerted_of() {
        for right in [
            "sum(hypercloud_coordinator_leading) != 1",
            "node_agent_jobs_uploads{x=~\"not_a_metric\"} > 0",
            "count_over_time (hypercloud_coordinator_leading{state=\"ERROR\"}[5m]) < 3",
            "kube_daemonset_status_desired_number_scheduled > hypercloud_coordinator_leading",
        ] {
            assert_eq!(alerts(right), [""; 0], "{right}");
        }
    }

    #[test]
    fn what_nobody_shows_is_found() {
        for (wrong, said) in [
            ("hypercloud_coordinator_leads", "nobody shows"),
            ("hypercloud_coordinator_gone", "nobody shows"),
            ("node_agent_leading", "nobody shows"),
            ("leading", "goes by no metric"),
            (
                "hypercloud_coordinator_leading{state=\"Error\"}",
                "no state Error",
            ),
        ] {
            let found = alerts(wrong);
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
            assert!(found[0].contains(said), "{wrong}: {found:?}");
        }
    }

    #[test]
    fn a_port_that_is_not_there_is_found() {
        let monitor = "spec: {selector: {matchExpressions: [{values: [a]}]}, podMetricsEndpoints: [{port: p}]}";
        let workload = |port: &str| {
            format!(
                "kind: K\nspec: {{template: {{spec: {{containers: [{{ports: [{{name: {port}}}]}}]}}}}}}"
            )
        };
        let found = |name, port| of_port(monitor, (name, "K"), &workload(port)).unwrap();
        assert_eq!(found("a", "p"), [""; 0]);
        assert!(found("a", "q")[0].contains("no port"));
        assert!(found("b", "p")[0].contains("not selected"));
    }
}
