//! An API server that says what the test says, for the plug-in as a process.

// Each test program uses some of it.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::{Value, json};

/// A status whose condition says why it is not complete.
pub fn status(phase: &str, reason: &str, message: &str) -> Value {
    json!({"phase": phase, "progress": "42%", "conditions": [{"type": "Complete",
        "status": "False", "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
}

/// How a request is answered.
pub enum Answer {
    /// By an object.
    Object(u16, Value),
    /// By events; nothing more is told then, and there is no end.
    Events(Vec<Value>),
}

/// An API server with one resource, whose status changes to each of these;
/// then nothing more is told. Answers with the kubeconfig that leads to it.
pub fn cluster(folder: &Path, resource: fn(Value) -> Value, statuses: Vec<Value>) -> PathBuf {
    serving(folder, move |request| {
        assert!(request.contains("/namespaces/team/"), "{request}");
        if request.contains("watch=true") {
            let events = statuses.iter().cloned().map(resource);
            Answer::Events(events.map(modified).collect())
        } else {
            Answer::Object(201, resource(json!({})))
        }
    })
}

/// The event that an object has changed.
pub fn modified(object: Value) -> Value {
    json!({"type": "MODIFIED", "object": object})
}

/// An API server that answers by a function of a request's first line.
/// Answers with the kubeconfig that leads to it.
pub fn serving(folder: &Path, answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> PathBuf {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || serve(stream.unwrap(), &*answer));
        }
    });
    let path = folder.join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "nowhere",
        "clusters": [
            {"name": "test", "cluster": {"server": format!("http://{address}")}},
            {"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [
            {"name": "test", "context": {"cluster": "test", "user": "me", "namespace": "team"}},
            {"name": "nowhere", "context": {"cluster": "nowhere", "user": "me"}}]});
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// Serves one connection.
fn serve(stream: std::net::TcpStream, answer: &dyn Fn(&str) -> Answer) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let (head, text) = match answer(&request) {
            Answer::Events(events) => {
                let events: String = events.iter().map(|event| format!("{event}\n")).collect();
                let size = events.len();
                // No events are no chunk: an empty one would be the last.
                let chunk = match size {
                    0 => String::new(),
                    size => format!("{size:x}\r\n{events}\r\n"),
                };
                ("200 OK\r\nTransfer-Encoding: chunked".to_owned(), chunk)
            }
            Answer::Object(code, object) => {
                let text = object.to_string();
                let head = format!("{code} Answer\r\nContent-Length: {}", text.len());
                (head, text)
            }
        };
        let answer = format!("HTTP/1.1 {head}\r\nContent-Type: application/json\r\n\r\n{text}");
        writer.write_all(answer.as_bytes()).unwrap();
    }
}

/// Exit code, standard output and standard error.
pub fn ended(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// The plug-in, for the cluster of a kubeconfig.
pub fn plugin(kubeconfig: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-hcs"));
    command
        .args(words)
        .args(["--context", "test", "--kubeconfig"])
        .arg(kubeconfig)
        .env_remove("KUBECONFIG");
    for proxy in ["http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(proxy).env_remove(proxy.to_uppercase());
    }
    command
}
