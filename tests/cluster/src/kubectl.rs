//! Calls to the cluster through its own kubectl and credentials.

use crate::binaries::Binaries;
use crate::command::{feed, run, succeeds};
use crate::settings::Settings;
use anyhow::Result;
use serde_json::Value;
use std::process::Command;

/// The cluster's kubectl with the administrator's credentials.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: String,
    kubeconfig: String,
}

impl Kubectl {
    /// For the cluster of these settings.
    pub fn new(settings: &Settings, binaries: &Binaries) -> Result<Self> {
        Ok(Self {
            program: binaries.path("kubectl")?,
            kubeconfig: settings.kubeconfig().display().to_string(),
        })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["--kubeconfig", &self.kubeconfig])
            .args(arguments)
            .env_remove("KUBECONFIG")
            .stdin(std::process::Stdio::null());
        command
    }

    /// Runs and returns the output.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        run(&mut self.command(arguments))
    }

    /// Whether the call ends well.
    pub fn succeeds(&self, arguments: &[&str]) -> bool {
        succeeds(&mut self.command(arguments))
    }

    /// Applies one object or a List.
    pub fn apply(&self, document: &Value) -> Result<()> {
        feed(
            &mut self.command(&["apply", "--filename=-"]),
            document.to_string().as_bytes(),
        )
        .map(drop)
    }

    /// Reads one or more objects as JSON.
    pub fn get(&self, arguments: &[&str]) -> Result<Value> {
        let mut all = vec!["get", "--output=json"];
        all.extend(arguments);
        Ok(serde_json::from_str(&self.run(&all)?)?)
    }
}

/// Wraps objects for one `apply`.
pub fn list(items: Vec<Value>) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items})
}
