//! What the coordinator does for itself, against an API server in memory:
//! the Lease, the certificates, finding the agents.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod memory;

use std::time::{Duration, Instant};

use hypercloud_coordinator::agents::discover::discover;
use hypercloud_coordinator::agents::pool::Endpoints;
use hypercloud_coordinator::leader::{Candidate, LEASE_DURATION};
use hypercloud_coordinator::tls;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use memory::Server;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/system/leases";
const SECRETS: &str = "/api/v1/namespaces/system/secrets";
const PODS: &str = "/api/v1/namespaces/system/pods";

fn lease() -> String {
    format!("{LEASES}/hypercloud-storage-coordinator")
}

#[tokio::test]
async fn one_candidate_leads_and_a_released_lease_is_taken_at_once() {
    let server = Server::default();
    let stop = CancellationToken::new();
    let candidate = |name: &str| Candidate::new(server.client(), "system", name.to_owned());
    let (mut first, mut second) = (candidate("first"), candidate("second"));
    assert!(first.elected(&stop).await);
    let follow = tokio::time::timeout(Duration::from_secs(3), second.elected(&stop));
    assert!(follow.await.is_err(), "two leaders");
    assert_eq!(server.object(&lease())["spec"]["holderIdentity"], "first");

    first.release().await.unwrap();
    let begun = Instant::now();
    assert!(second.elected(&stop).await);
    // One that is not released is waited for so long.
    assert!(begun.elapsed() < LEASE_DURATION);
    let held = server.object(&lease());
    assert_eq!(held["spec"]["holderIdentity"], "second");
    assert_eq!(held["spec"]["leaseTransitions"], 2);
    // What is not one's own is not released.
    first.release().await.unwrap();
    assert_eq!(server.object(&lease())["spec"]["holderIdentity"], "second");
}

#[tokio::test]
async fn a_leader_that_is_deposed_notices() {
    let server = Server::default();
    let stop = CancellationToken::new();
    let mut leader = Candidate::new(server.client(), "system", "leader".to_owned());
    assert!(leader.elected(&stop).await);
    let mut held = server.object(&lease());
    held["spec"]["holderIdentity"] = json!("usurper");
    server.put(&lease(), held);
    let lost = tokio::time::timeout(Duration::from_secs(30), leader.lead()).await;
    assert_eq!(lost.unwrap().to_string(), "the lease is held by usurper");
}

#[tokio::test]
async fn a_leader_without_an_api_server_steps_down_in_time() {
    let server = Server::default();
    let stop = CancellationToken::new();
    let mut leader = Candidate::new(server.client(), "system", "leader".to_owned());
    assert!(leader.elected(&stop).await);
    server.hang();
    let begun = Instant::now();
    let lost = tokio::time::timeout(LEASE_DURATION, leader.lead()).await;
    assert!(
        lost.is_ok() && begun.elapsed() < LEASE_DURATION,
        "a leader without a lease"
    );
}

#[tokio::test]
async fn a_candidate_without_an_api_server_still_stops() {
    let server = Server::default();
    server.hang();
    let stop = CancellationToken::new();
    let mut candidate = Candidate::new(server.client(), "system", "first".to_owned());
    let stopped = async { tokio::join!(candidate.elected(&stop), async { stop.cancel() }).0 };
    let elected = tokio::time::timeout(Duration::from_secs(30), stopped).await;
    assert!(!elected.unwrap());
}

#[tokio::test]
async fn certificates_are_made_once_and_renewed_in_time() {
    let server = Server::default();
    let now = Timestamp::now();
    let day = |days: i64| {
        now.checked_add(SignedDuration::from_hours(24 * days))
            .unwrap()
    };
    let first = tls::ensure(&server.client(), "system", now).await.unwrap();
    let names = ["hypercloud-storage-ca", "node-agent-tls", "coordinator-tls"];
    let secrets = || names.map(|name| server.object(&format!("{SECRETS}/{name}")));
    let made = secrets();
    for secret in &made {
        for key in ["tls.crt", "tls.key", "ca.crt"] {
            assert!(secret["data"][key].is_string(), "{key} of {secret}");
        }
    }
    let again = tls::ensure(&server.client(), "system", day(50))
        .await
        .unwrap();
    assert!(first == again && secrets() == made, "renewed without need");

    let renewed = tls::ensure(&server.client(), "system", day(70))
        .await
        .unwrap();
    assert!(renewed != first && renewed.authorities == first.authorities);
    let now_held = secrets();
    assert!(now_held[0] == made[0] && now_held[1] != made[1] && now_held[2] != made[2]);

    // A new authority is trusted beside the former one.
    let later = tls::ensure(&server.client(), "system", day(3000))
        .await
        .unwrap();
    assert!(
        later.authorities.ends_with(&first.authorities) && later.authorities != first.authorities
    );
}

#[tokio::test]
async fn two_that_make_certificates_agree() {
    let server = Server::default();
    let now = Timestamp::now();
    let (client, other) = (server.client(), server.client());
    let (one, two) = tokio::join!(
        tls::ensure(&client, "system", now),
        tls::ensure(&other, "system", now)
    );
    assert!(one.unwrap().authorities == two.unwrap().authorities);
}

#[tokio::test]
async fn agents_that_were_there_before_are_found() {
    let server = Server::default();
    let pod = json!({"metadata": {"name": "a", "namespace": "system"},
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"phase": "Running", "podIP": "10.0.0.1"}});
    server.put(&format!("{PODS}/a"), pod);
    let (sender, mut endpoints) = watch::channel(Endpoints::new());
    let stop = CancellationToken::new();
    let client = server.client();
    let task = discover(client, "system", 7443, sender, stop.clone());
    let found = async {
        let found = endpoints.wait_for(|found| !found.is_empty()).await;
        let found = found.unwrap().clone();
        stop.cancel();
        found
    };
    let both = async { tokio::join!(task, found).1 };
    let found = tokio::time::timeout(Duration::from_secs(10), both)
        .await
        .unwrap();
    assert_eq!(
        found,
        Endpoints::from([("n1".into(), "10.0.0.1:7443".parse().unwrap())])
    );
}
