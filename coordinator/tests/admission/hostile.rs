//! What is no review, or comes from nobody who asks for one.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{NAME, Webhook, review, storage};

#[tokio::test]
async fn what_is_no_review_is_told_so() {
    let webhook = Webhook::new().await;
    let caller = &webhook.caller;
    let good = review(Value::Null, storage("n", &["sdb"])).to_string();
    let pods = good.replace("\"hypercloudstorages\"", "\"pods\"");
    for (method, path, body, code) in [
        ("GET", "/hypercloudstorages", "", 405),
        ("POST", "/", good.as_str(), 404),
        ("POST", "/hypercloudstorages/", good.as_str(), 404),
        ("POST", "/hypercloudstorages", "", 400),
        ("POST", "/hypercloudstorages", "{}", 400),
        ("POST", "/hypercloudstorages", pods.as_str(), 400),
        ("POST", "/hypercloudstorages", &good[..good.len() / 2], 400),
    ] {
        let (found, text) = caller
            .ask(NAME, method, path, body.as_bytes())
            .await
            .unwrap();
        assert_eq!(found, code, "{method} {path} {body}: {text}");
    }
    let long = vec![b' '; (3 << 20) + 1];
    let (code, _) = caller.post(NAME, &long).await.unwrap();
    assert_eq!(code, 413);
    webhook.allowed(Value::Null, storage("n", &["sdb"])).await;
}

#[tokio::test]
async fn strangers_keep_nobody_from_being_answered() {
    let webhook = Webhook::within(Duration::from_secs(3)).await;
    let address = webhook.caller.address;
    // No TLS at all.
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said).await;
    assert!(!said.starts_with(b"HTTP"));
    // A handshake that does not begin, headers and bodies that do not end.
    let _silent = TcpStream::connect(address).await.unwrap();
    let mut slow = Vec::new();
    for words in [
        "POST /hypercloudstorages HTTP/1.1\r\nhost: a\r\n",
        "POST /hypercloudstorages HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{",
    ] {
        // More bodies than there are turns.
        for _ in 0..6 {
            let mut stream = webhook.caller.connect(NAME).await.unwrap();
            stream.write_all(words.as_bytes()).await.unwrap();
            slow.push(stream);
        }
    }
    let body = review(Value::Null, storage("n", &["sdb"])).to_string();
    let answered = async {
        loop {
            let (code, answer) = webhook.caller.post(NAME, body.as_bytes()).await.unwrap();
            if code == 200 {
                return answer;
            }
            assert_eq!(code, 503, "{answer}");
        }
    };
    let answered = tokio::time::timeout(Duration::from_secs(30), answered).await;
    assert!(answered.unwrap().contains("\"allowed\":true"));
}
