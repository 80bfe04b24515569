//! An API server that a function answers for.

use std::sync::{Arc, Mutex};

use http::{Request as HttpRequest, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower_test::mock;
use url::form_urlencoded;

/// What is asked.
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub body: Value,
}

impl Request {
    /// A parameter of the query.
    pub fn query(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// What is answered: JSON, but for logs.
pub enum Answer {
    Json(u16, Value),
    Text(String),
}

/// That there is no such thing.
pub fn missing() -> Answer {
    failure(404, "NotFound")
}

pub fn failure(code: u16, reason: &str) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                        "message": reason, "reason": reason, "code": code});
    Answer::Json(code, status)
}

/// A list; of kinds that are asked for by their metadata alone too.
pub fn list(items: Vec<Value>) -> Answer {
    Answer::Json(200, json!({"metadata": {}, "items": items}))
}

/// A client of the server that `answer` is.
pub fn serve(answer: impl FnMut(&Request) -> Answer + Send + 'static) -> Client {
    let (service, mut handle) = mock::pair::<HttpRequest<Body>, Response<Body>>();
    let answer = Arc::new(Mutex::new(answer));
    tokio::spawn(async move {
        while let Some((request, send)) = handle.next_request().await {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await.unwrap();
            let query = parts.uri.query().unwrap_or_default();
            let query = form_urlencoded::parse(query.as_bytes());
            let request = Request {
                method: parts.method.to_string(),
                path: parts.uri.path().to_owned(),
                query: query.into_owned().collect(),
                body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            };
            let answered = (answer.lock().unwrap())(&request);
            let (code, body) = match answered {
                Answer::Json(code, value) => (code, serde_json::to_vec(&value).unwrap()),
                Answer::Text(text) => (200, text.into_bytes()),
            };
            let response = Response::builder().status(code);
            send.send_response(response.body(Body::from(body)).unwrap());
        }
    });
    Client::new(service, "default")
}
