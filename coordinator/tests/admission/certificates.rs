//! What the webhook answers with, and whom the API server trusts.

use std::sync::Arc;
use std::time::Duration;

use hypercloud_coordinator::admission::certificate::Certificate;
use hypercloud_coordinator::admission::register::{ensure, keep};
use hypercloud_coordinator::health;
use hypercloud_coordinator::metrics::Metrics;
use hypercloud_coordinator::tls::issue::KeyedCertificate;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::{CONFIGURATION, Caller, NAME, Webhook, cluster, storage, trusted};

const SECRETS: &str = "/api/v1/namespaces/system/secrets";
const SECRET: &str = "/api/v1/namespaces/system/secrets/coordinator-admission-tls";

fn day(days: i64) -> Timestamp {
    let later = SignedDuration::from_hours(24 * days);
    Timestamp::now().checked_add(later).unwrap()
}

#[tokio::test]
async fn the_api_server_is_told_whom_to_trust() {
    let webhook = Webhook::new().await;
    assert!(webhook.caller.connect(NAME).await.is_ok());
    // The certificate speaks for nothing else.
    for name in [
        "node-agent.hypercloud-storage",
        "coordinator-admission.other.svc",
    ] {
        assert!(webhook.caller.connect(name).await.is_err(), "{name}");
    }
    // What somebody writes over it is put right; what is right is left alone.
    let client = webhook.server.client();
    let mut configuration = webhook.server.object(CONFIGURATION);
    let meant = trusted(&webhook.server);
    configuration["webhooks"][0]["clientConfig"]["caBundle"] = "AAAA".into();
    webhook.server.put(CONFIGURATION, configuration);
    webhook.server.writes();
    ensure(&client, "system", Timestamp::now()).await.unwrap();
    assert_eq!(trusted(&webhook.server), meant);
    assert_eq!(webhook.server.writes(), [format!("PATCH {CONFIGURATION}")]);
    ensure(&client, "system", Timestamp::now()).await.unwrap();
    assert!(webhook.server.writes().is_empty());
}

#[tokio::test]
async fn it_is_renewed_while_connections_go_on() {
    let webhook = Webhook::new().await;
    let client = webhook.server.client();
    for secret in ["hypercloud-storage-ca", "coordinator-admission-tls"] {
        webhook.server.take(&format!("{SECRETS}/{secret}"));
    }
    // One that was made 70 days ago is good for 20 more.
    let old = ensure(&client, "system", day(-70)).await.unwrap();
    webhook.certificate.set(&old).unwrap();
    let again = ensure(&client, "system", day(-20)).await.unwrap();
    assert!(again == old, "renewed without need");
    let caller = Caller::new(webhook.caller.address, &trusted(&webhook.server));
    let mut former = caller.connect(NAME).await.unwrap();

    let renewed = ensure(&client, "system", Timestamp::now()).await.unwrap();
    webhook.certificate.set(&renewed).unwrap();
    let latter = caller.connect(NAME).await.unwrap();
    let shown = |stream: &TlsStream<TcpStream>| {
        let shown = stream.get_ref().1.peer_certificates();
        shown.unwrap().first().cloned().unwrap()
    };
    assert_ne!(shown(&former), shown(&latter));
    let request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    former.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    former.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

#[tokio::test]
async fn a_new_authority_is_trusted_before_it_is_used() {
    let server = cluster();
    let client = server.client();
    ensure(&client, "system", Timestamp::now()).await.unwrap();
    let former = trusted(&server);
    server.writes();
    ensure(&client, "system", day(3000)).await.unwrap();
    assert!(trusted(&server).ends_with(&former) && trusted(&server) != former);
    let writes = server.writes();
    let at = |path: &str| writes.iter().position(|write| write.ends_with(path));
    assert!(at(CONFIGURATION) < at(SECRET), "{writes:?}");
    assert!(at(CONFIGURATION).is_some(), "{writes:?}");
}

#[tokio::test]
async fn replicas_that_meet_agree() {
    let server = cluster();
    let (one, two) = (server.client(), server.client());
    let stop = CancellationToken::new();
    let (a, b) = (
        Arc::new(Certificate::default()),
        Arc::new(Certificate::default()),
    );
    let done = async {
        let both = async {
            while !a.is_set() || !b.is_set() {
                tokio::task::yield_now().await;
            }
        };
        let both = tokio::time::timeout(Duration::from_secs(20), both).await;
        stop.cancel();
        both
    };
    let (_, _, done) = tokio::join!(
        keep(one, "system", Arc::clone(&a), stop.clone()),
        keep(two, "system", Arc::clone(&b), stop.clone()),
        done
    );
    done.unwrap();
    let (one, two) = (server.client(), server.client());
    let now = Timestamp::now();
    let both = tokio::join!(ensure(&one, "system", now), ensure(&two, "system", now));
    assert!(both.0.unwrap() == both.1.unwrap());
}

#[tokio::test]
async fn without_the_configuration_there_is_a_certificate_all_the_same() {
    let server = cluster();
    server.take(CONFIGURATION);
    let kept = ensure(&server.client(), "system", Timestamp::now()).await;
    assert!(Certificate::default().set(&kept.unwrap()).is_ok());
    assert_eq!(server.object(CONFIGURATION), Value::Null);
}

#[tokio::test]
async fn what_cannot_be_used_leaves_the_one_before_in_use() {
    let webhook = Webhook::new().await;
    let other = ensure(&cluster().client(), "system", Timestamp::now()).await;
    let other = other.unwrap();
    let own = ensure(&webhook.server.client(), "system", Timestamp::now()).await;
    let own = own.unwrap();
    let broken = |certificate: &str, key: &str| KeyedCertificate {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
    };
    for broken in [
        broken("", ""),
        broken("no certificate", &own.key),
        broken(&own.certificate, "no key"),
        broken(&own.certificate, &other.key),
    ] {
        assert!(webhook.certificate.set(&broken).is_err());
    }
    webhook.allowed(Value::Null, storage("n", &["sdb"])).await;
}

#[tokio::test]
async fn a_replica_is_ready_once_it_can_answer() {
    let certificate = Arc::new(Certificate::default());
    let shown = Arc::clone(&certificate);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let metrics = Arc::new(Metrics::default());
    let is_ready = move || shown.is_set();
    let serving = tokio::spawn(health::serve(listener, metrics, is_ready, stop.clone()));
    let asked = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer.split(' ').nth(1).map(str::to_owned).unwrap()
    };
    assert_eq!(
        (asked("/readyz").await, asked("/healthz").await),
        ("503".into(), "200".into())
    );
    let kept = ensure(&cluster().client(), "system", Timestamp::now()).await;
    certificate.set(&kept.unwrap()).unwrap();
    assert_eq!(asked("/readyz").await, "200");
    stop.cancel();
    serving.await.unwrap().unwrap();
}
