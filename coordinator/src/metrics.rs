//! Counters, in the text form that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hypercloud_api::HyperCloudStorageStatus;

/// The process's counters.
#[derive(Debug, Default)]
pub struct Metrics {
    leading: AtomicBool,
    agents: AtomicU64,
    reconciles: AtomicU64,
    reconcile_micros: AtomicU64,
    status_writes: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
    notices: Mutex<BTreeMap<String, u64>>,
    storage: Mutex<Vec<(String, &'static str)>>,
    reviews: Mutex<BTreeMap<String, u64>>,
}

impl Metrics {
    /// Whether this process leads.
    pub fn set_leading(&self, leading: bool) {
        self.leading.store(leading, Relaxed);
    }

    /// Number of agents that can be asked.
    pub fn set_agents(&self, agents: usize) {
        self.agents.store(agents as u64, Relaxed);
    }

    /// One reconcile ended.
    pub fn reconciled(&self, took: Duration) {
        self.reconciles.fetch_add(1, Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.reconcile_micros.fetch_add(micros, Relaxed);
    }

    /// One reconcile failed, for `reason`.
    pub fn reconcile_failed(&self, reason: &str) {
        add(&self.errors, reason);
    }

    /// One status was written.
    pub fn status_written(&self) {
        self.status_writes.fetch_add(1, Relaxed);
    }

    /// People were told of a transition.
    pub fn notice(&self, reason: &str) {
        add(&self.notices, reason);
    }

    /// How the storage and its components are; none where there is none.
    pub fn set_storage(&self, status: Option<&HyperCloudStorageStatus>) {
        let mut states = Vec::new();
        if let Some(status) = status {
            let state = status.state.unwrap_or_default();
            states.push((String::new(), state.as_str()));
            let components = status.components.iter();
            states.extend(components.map(|c| (c.name.clone(), c.state.as_str())));
        }
        *self.storage.lock().unwrap_or_else(PoisonError::into_inner) = states;
    }

    /// What was to be applied was judged, as `verdict` says.
    pub fn reviewed(&self, verdict: &str) {
        add(&self.reviews, verdict);
    }

    /// Every counter as text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let mut one = |name: &str, kind: &str, help: &str, value: f64| {
            let name = format!("hypercloud_coordinator_{name}");
            // Writing to a String cannot fail.
            let _ = writeln!(
                out,
                "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
            );
        };
        let leading = f64::from(u8::from(self.leading.load(Relaxed)));
        one("leading", "gauge", "Whether this process leads.", leading);
        let agents = self.agents.load(Relaxed) as f64;
        one(
            "agents_connected",
            "gauge",
            "Agents that can be asked.",
            agents,
        );
        let reconciles = self.reconciles.load(Relaxed) as f64;
        one(
            "reconciles_total",
            "counter",
            "Reconciles ended.",
            reconciles,
        );
        let seconds = self.reconcile_micros.load(Relaxed) as f64 / 1e6;
        let help = "Time spent in reconciles.";
        one("reconcile_seconds_total", "counter", help, seconds);
        let writes = self.status_writes.load(Relaxed) as f64;
        one(
            "status_writes_total",
            "counter",
            "Statuses written.",
            writes,
        );
        family(
            &mut out,
            "reconcile_errors_total",
            "Reconciles that failed, by reason.",
            &self.errors,
        );
        family(
            &mut out,
            "events_total",
            "Transitions of resources, by reason.",
            &self.notices,
        );
        family(
            &mut out,
            "admission_reviews_total",
            "Specifications that were judged, by what came out.",
            &self.reviews,
        );
        self.render_storage(&mut out);
        out
    }
}

impl Metrics {
    /// What is, as ones; what is not, is left out.
    fn render_storage(&self, out: &mut String) {
        let states = self.storage.lock().unwrap_or_else(PoisonError::into_inner);
        for (whole, name, help) in [
            (true, "storage_state", "How the HyperCloudStorage is."),
            (false, "storage_component_state", "How its components are."),
        ] {
            let name = format!("hypercloud_coordinator_{name}");
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
            for (component, state) in states.iter().filter(|(c, _)| c.is_empty() == whole) {
                let label = match whole {
                    true => String::new(),
                    false => format!("component=\"{component}\","),
                };
                let _ = writeln!(out, "{name}{{{label}state=\"{state}\"}} 1");
            }
        }
    }
}

fn add(family: &Mutex<BTreeMap<String, u64>>, reason: &str) {
    let mut family = family.lock().unwrap_or_else(PoisonError::into_inner);
    *family.entry(reason.to_owned()).or_default() += 1;
}

fn family(out: &mut String, name: &str, help: &str, values: &Mutex<BTreeMap<String, u64>>) {
    let name = format!("hypercloud_coordinator_{name}");
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
    let values = values.lock().unwrap_or_else(PoisonError::into_inner);
    for (reason, value) in values.iter() {
        let _ = writeln!(out, "{name}{{reason=\"{reason}\"}} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_rendered() {
        let metrics = Metrics::default();
        metrics.set_leading(true);
        metrics.notice("Imported");
        metrics.notice("Imported");
        metrics.reconciled(Duration::from_millis(1500));
        let component = hypercloud_api::StorageComponent {
            name: "ceph-cluster".into(),
            ..Default::default()
        };
        metrics.set_storage(Some(&HyperCloudStorageStatus {
            components: vec![component],
            ..Default::default()
        }));
        let text = metrics.render();
        for line in [
            "hypercloud_coordinator_leading 1",
            "hypercloud_coordinator_reconcile_seconds_total 1.5",
            "hypercloud_coordinator_events_total{reason=\"Imported\"} 2",
            "hypercloud_coordinator_storage_state{state=\"Installing\"} 1",
            "hypercloud_coordinator_storage_component_state{component=\"ceph-cluster\",state=\"Waiting\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} not in\n{text}");
        }
    }
}
