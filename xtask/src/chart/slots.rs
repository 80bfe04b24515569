//! The places of the base at which a chart's user decides.

use anyhow::{Context, bail};
use serde_yaml::Value;

/// A place in an object.
pub struct Slot {
    pub kind: &'static str,
    pub name: &'static str,
    /// Keys from the top, separated by slashes; in a list, the `name` of the
    /// entry.
    place: &'static str,
    fill: Fill,
}

/// What is put there.
enum Fill {
    /// An action in place of the value that is there.
    Value(&'static str),
    /// One more entry of a map, where the value is not empty.
    Entry(&'static str, &'static str),
    /// More entries of a map, which are those of the value.
    Entries(&'static str),
    /// More entries of a list, which a named template makes.
    Items(&'static str),
}

use Fill::{Entries, Entry, Items, Value as Put};

/// Every place.
pub const SLOTS: &[Slot] = &[
    coordinator("spec/replicas", Put(".Values.coordinator.replicas")),
    coordinator(
        "spec/template/spec",
        Entry("imagePullSecrets", ".Values.image.pullSecrets"),
    ),
    coordinator(
        "spec/template/metadata/labels",
        Entries(".Values.coordinator.podLabels"),
    ),
    coordinator(
        "spec/template/metadata",
        Entry("annotations", ".Values.coordinator.podAnnotations"),
    ),
    coordinator(
        "spec/template/spec/priorityClassName",
        Put(".Values.coordinator.priorityClassName | quote"),
    ),
    coordinator(
        "spec/template/spec/nodeSelector",
        Put("toJson .Values.coordinator.nodeSelector"),
    ),
    coordinator(
        "spec/template/spec",
        Entry("tolerations", ".Values.coordinator.tolerations"),
    ),
    coordinator(
        "spec/template/spec",
        Entry("volumes", ".Values.coordinator.volumes"),
    ),
    coordinator(
        "spec/template/spec/containers/coordinator",
        Entry("volumeMounts", ".Values.coordinator.volumeMounts"),
    ),
    coordinator(
        "spec/template/spec/affinity",
        Put("toJson .Values.coordinator.affinity"),
    ),
    coordinator(
        "spec/template/spec/containers/coordinator/image",
        Put(r#"include "hypercloud-storage.image" (list . "coordinator") | quote"#),
    ),
    coordinator(
        "spec/template/spec/containers/coordinator/imagePullPolicy",
        Put(".Values.image.pullPolicy"),
    ),
    coordinator(
        "spec/template/spec/containers/coordinator/env/HOLDER_IMAGE/value",
        Put(r#"include "hypercloud-storage.image" (list . "node-agent") | quote"#),
    ),
    coordinator(
        "spec/template/spec/containers/coordinator/env",
        Items("hypercloud-storage.coordinator-env"),
    ),
    coordinator(
        "spec/template/spec/containers/coordinator/resources",
        Put("toJson .Values.coordinator.resources"),
    ),
    agent(
        "spec/template/spec",
        Entry("imagePullSecrets", ".Values.image.pullSecrets"),
    ),
    agent(
        "spec/template/metadata/labels",
        Entries(".Values.agents.podLabels"),
    ),
    agent(
        "spec/template/metadata",
        Entry("annotations", ".Values.agents.podAnnotations"),
    ),
    agent(
        "spec/template/spec/priorityClassName",
        Put(".Values.agents.priorityClassName | quote"),
    ),
    agent(
        "spec/template/spec/nodeSelector",
        Put("toJson .Values.agents.nodeSelector"),
    ),
    agent(
        "spec/template/spec",
        Entry("affinity", ".Values.agents.affinity"),
    ),
    agent(
        "spec/template/spec/tolerations",
        Put("toJson .Values.agents.tolerations"),
    ),
    agent(
        "spec/template/spec/containers/node-agent/image",
        Put(r#"include "hypercloud-storage.image" (list . "node-agent") | quote"#),
    ),
    agent(
        "spec/template/spec/containers/node-agent/imagePullPolicy",
        Put(".Values.image.pullPolicy"),
    ),
    agent(
        "spec/updateStrategy/rollingUpdate/maxUnavailable",
        Put("toJson .Values.agents.maxUnavailable"),
    ),
    agent(
        "spec/template/spec/containers/node-agent/env/KUBELET_ROOT/value",
        Put(".Values.agents.kubeletRoot | quote"),
    ),
    agent(
        "spec/template/spec/containers/node-agent/volumeMounts/kubelet/mountPath",
        Put(".Values.agents.kubeletRoot | quote"),
    ),
    agent(
        "spec/template/spec/volumes/kubelet/hostPath/path",
        Put(".Values.agents.kubeletRoot | quote"),
    ),
    agent(
        "spec/template/spec/containers/node-agent/env",
        Items("hypercloud-storage.agent-env"),
    ),
    agent(
        "spec/template/spec/containers/node-agent/resources",
        Put("toJson .Values.agents.resources"),
    ),
    monitoring("PodMonitor"),
    monitoring("PrometheusRule"),
];

const fn coordinator(place: &'static str, fill: Fill) -> Slot {
    Slot {
        kind: "Deployment",
        name: "coordinator",
        place,
        fill,
    }
}

const fn agent(place: &'static str, fill: Fill) -> Slot {
    Slot {
        kind: "DaemonSet",
        name: "node-agent",
        place,
        fill,
    }
}

/// A Prometheus selects its monitors and rules by their labels.
const fn monitoring(kind: &'static str) -> Slot {
    Slot {
        kind,
        name: "hypercloud-storage",
        place: "metadata/labels",
        fill: Entries(".Values.monitoring.labels"),
    }
}

impl Slot {
    /// Puts `mark` where the slot is in `object`.
    pub fn mark(&self, object: &mut Value, mark: &str) -> anyhow::Result<()> {
        let mut place = object;
        for key in self.place.split('/') {
            place = step(place, key).with_context(|| format!("no {} ({key})", self.place))?;
        }
        match self.fill {
            Put(_) => *place = mark.into(),
            Entry(key, _) => {
                let map = place.as_mapping_mut().context("not a map")?;
                if map.contains_key(key) {
                    bail!("{key} is there already: let it be a value that is put in its place");
                }
                map.insert(mark.into(), Value::Null);
            }
            Entries(_) => {
                let map = place.as_mapping_mut().context("not a map")?;
                map.insert(mark.into(), Value::Null);
            }
            Items(_) => place
                .as_sequence_mut()
                .context("not a list")?
                .push(mark.into()),
        }
        Ok(())
    }

    /// The line, or lines, in place of the one with the mark.
    pub fn line(&self, line: &str, mark: &str) -> String {
        let indent = line.len() - line.trim_start().len();
        let space = " ".repeat(indent);
        match self.fill {
            Put(action) => line.replace(mark, &format!("{{{{ {action} }}}}")),
            Entry(key, value) => format!(
                "{space}{{{{- with {value} }}}}\n{space}{key}: {{{{ toJson . }}}}\n{space}{{{{- end }}}}"
            ),
            Entries(value) => format!(
                "{space}{{{{- with {value} }}}}\n{space}{{{{- toYaml . | nindent {indent} }}}}\n{space}{{{{- end }}}}"
            ),
            Items(template) => format!(
                "{space}{{{{- with include \"{template}\" . | trim }}}}\n{space}{{{{- . | nindent {indent} }}}}\n{space}{{{{- end }}}}"
            ),
        }
    }
}

/// What a key leads to.
fn step<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    match value {
        Value::Sequence(entries) => entries
            .iter_mut()
            .find(|entry| entry.get("name").and_then(Value::as_str) == Some(key)),
        other => other.get_mut(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(fill: Fill, place: &'static str) -> String {
        let slot = coordinator(place, fill);
        let text = "spec:\n  env:\n  - name: A\n    value: b\n";
        let mut object = serde_yaml::from_str(text).unwrap();
        slot.mark(&mut object, "SLOT").unwrap();
        let text = serde_yaml::to_string(&object).unwrap();
        text.lines()
            .map(|line| match line.contains("SLOT") {
                true => slot.line(line, "SLOT") + "\n",
                false => format!("{line}\n"),
            })
            .collect()
    }

    #[test]
    fn a_value_is_put_in_place_of_the_one_in_the_base() {
        assert_eq!(
            filled(Put(".Values.b"), "spec/env/A/value"),
            "spec:\n  env:\n  - name: A\n    value: {{ .Values.b }}\n"
        );
    }

    #[test]
    fn entries_and_items_are_added_with_the_indentation_of_the_place() {
        assert_eq!(
            filled(Entry("more", ".Values.more"), "spec"),
            "spec:\n  env:\n  - name: A\n    value: b\n  {{- with .Values.more }}\n  more: {{ toJson . }}\n  {{- end }}\n"
        );
        let entries = filled(Entries(".Values.more"), "spec");
        assert!(entries.ends_with(
            "    value: b\n  {{- with .Values.more }}\n  {{- toYaml . | nindent 2 }}\n  {{- end }}\n"
        ));
        let items = filled(Items("named"), "spec/env");
        assert!(items.ends_with(
            "    value: b\n  {{- with include \"named\" . | trim }}\n  {{- . | nindent 2 }}\n  {{- end }}\n"
        ));
    }

    #[test]
    fn a_place_that_is_gone_is_an_error() {
        let slot = coordinator("spec/env/B/value", Put("x"));
        let mut object = serde_yaml::from_str("spec: {env: [{name: A}]}").unwrap();
        assert!(slot.mark(&mut object, "SLOT").is_err());
    }
}
