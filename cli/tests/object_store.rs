//! `s3://` sources: who the command is, is said by its environment.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// The same server that the engine is tested with.
#[allow(dead_code)]
#[path = "../../transfer/tests/engine/store.rs"]
mod store;

use std::path::Path;

use serde_json::Value;

use self::store::{KEYS, Setup, Store, refusal};

/// The last line of what the command said, and its exit code.
async fn hcs(home: &Path, environment: &[(&str, &str)], words: &[&str]) -> (i32, Value) {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_hcs"))
        .arg("image")
        .args(words)
        .args(["-o", "json"])
        .env_clear()
        .env("HOME", home)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .envs(environment.iter().copied())
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap_or("null");
    (
        output.status.code().unwrap(),
        serde_json::from_str(last).unwrap(),
    )
}

fn at(store: &Store) -> String {
    format!("http://{}", store.address)
}

const IMAGE: &str = "s3://images/disk";

#[tokio::test]
async fn keys_come_from_the_environment_or_a_profile() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::start(Setup::with("disk", &[7; 5120])).await;
    let endpoint = at(&store);
    let probe = ["probe", IMAGE, "--endpoint", &endpoint, "--path-style"];
    let keys = [
        ("AWS_ACCESS_KEY_ID", KEYS.0),
        ("AWS_SECRET_ACCESS_KEY", KEYS.1),
    ];
    let (code, facts) = hcs(home.path(), &keys, &probe).await;
    assert_eq!((code, &facts["virtualSize"]), (0, &5120.into()), "{facts}");
    assert!(store.seen()[0].contains("us-east-1"), "{:?}", store.seen());

    let wrong = [keys[0], ("AWS_SECRET_ACCESS_KEY", "wrong")];
    let (code, event) = hcs(home.path(), &wrong, &probe).await;
    assert_eq!(
        (code, &event["reason"]),
        (4, &"SignatureDoesNotMatch".into())
    );

    let (code, event) = hcs(home.path(), &[], &probe).await;
    assert_eq!((code, &event["reason"]), (4, &"NoCredentials".into()));

    // The machine's role is asked for last, and need not be there.
    let closed = Setup::with("disk", &[]).twisted(|_, _| Some(refusal(403, "Off", "")));
    let closed = Store::start(closed).await;
    let environment = [
        ("AWS_EC2_METADATA_DISABLED", "false"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &at(&closed)),
    ];
    let (code, event) = hcs(home.path(), &environment, &probe).await;
    assert_eq!((code, &event["reason"]), (4, &"NoCredentials".into()));
    assert!(!closed.seen().is_empty());

    let profile = format!(
        "[store]\naws_access_key_id = {}\naws_secret_access_key = {}\nregion = eu-west-3\n",
        KEYS.0, KEYS.1
    );
    let path = home.path().join("credentials");
    std::fs::write(&path, profile).unwrap();
    // The endpoint may come from the environment as well.
    let environment = [
        ("AWS_SHARED_CREDENTIALS_FILE", path.to_str().unwrap()),
        ("AWS_PROFILE", "store"),
        ("AWS_ENDPOINT_URL_S3", &endpoint),
    ];
    let target = home.path().join("disk.img");
    let import = ["import", IMAGE, target.to_str().unwrap(), "--path-style"];
    let (code, event) = hcs(home.path(), &environment, &import).await;
    assert_eq!((code, &event["event"]), (0, &"done".into()), "{event}");
    assert!(std::fs::read(&target).unwrap() == [7; 5120]);
    assert!(store.seen().last().unwrap().contains("eu-west-3"));
}

#[tokio::test]
async fn a_region_is_the_one_given_or_the_environments() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::start(Setup::with("disk", &[7; 5120])).await;
    let endpoint = at(&store);
    let environment = [
        ("AWS_ACCESS_KEY_ID", KEYS.0),
        ("AWS_SECRET_ACCESS_KEY", KEYS.1),
        ("AWS_REGION", "ap-south-1"),
    ];
    let mut words = vec!["probe", IMAGE, "--endpoint", &endpoint];
    assert_eq!(hcs(home.path(), &environment, &words).await.0, 0);
    words.extend(["--region", "sa-east-1"]);
    assert_eq!(hcs(home.path(), &environment, &words).await.0, 0);
    let seen = store.seen();
    assert!(seen[0].contains("ap-south-1"), "{seen:?}");
    assert!(seen[1].contains("sa-east-1"), "{seen:?}");
}

#[tokio::test]
async fn options_go_with_their_sources() {
    let home = tempfile::tempdir().unwrap();
    let setup = Setup {
        public: true,
        ..Setup::with("a disk", &[7; 5120])
    };
    let store = Store::start(setup).await;
    let endpoint = at(&store);
    let image = "s3://images/a disk";
    let words = ["probe", image, "--endpoint", &endpoint, "--anonymous"];
    assert_eq!(hcs(home.path(), &[], &words).await.0, 0);
    for words in [
        vec!["probe", "/some/path", "--anonymous"],
        vec!["probe", "http://a.example/x", "--endpoint", &endpoint],
        vec!["probe", "s3://images", "--endpoint", &endpoint],
        vec!["probe", image, "--endpoint", "nonsense"],
    ] {
        assert_eq!(hcs(home.path(), &[], &words).await.0, 2, "{words:?}");
    }
}

/// What the token service answers: keys that have expired already, so that
/// new ones are asked for every time.
fn temporary() -> hyper::Response<s3s::Body> {
    let body = format!(
        "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
         <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{}</AccessKeyId>\
         <SecretAccessKey>{}</SecretAccessKey><SessionToken>temporary</SessionToken>\
         <Expiration>2020-01-01T00:00:00Z</Expiration></Credentials>\
         </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
        KEYS.0, KEYS.1
    );
    hyper::Response::new(s3s::Body::from(body.into_bytes()))
}

#[tokio::test]
async fn a_web_identity_is_changed_for_temporary_keys() {
    let home = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..20_000_000_u32).map(|n| (n / 512) as u8).collect();
    let setup = Setup::with("disk", &content).twisted(|parts, _| {
        let unsigned = !parts
            .uri
            .to_string()
            .contains("X-Amz-Security-Token=temporary");
        match parts.method.as_str() {
            "POST" => Some(temporary()),
            _ if unsigned => Some(refusal(403, "AccessDenied", "")),
            _ => None,
        }
    });
    let store = Store::start(setup).await;
    let endpoint = at(&store);
    let token = home.path().join("token");
    std::fs::write(&token, "a token").unwrap();
    let mut environment = vec![
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/images"),
        ("AWS_ENDPOINT_URL_STS", &endpoint),
        ("AWS_ENDPOINT_URL_S3", &endpoint),
    ];
    let target = home.path().join("disk.img");
    let import = ["import", IMAGE, target.to_str().unwrap()];
    let (code, event) = hcs(home.path(), &environment, &import).await;
    assert_eq!((code, &event["event"]), (0, &"done".into()), "{event}");
    assert!(std::fs::read(&target).unwrap()[..content.len()] == content);
    let port = store.address.port();
    let token_service = format!("127.0.0.1:{port}/");
    let changed = |seen: &&String| **seen == token_service;
    assert!(
        store.seen().iter().filter(changed).count() > 1,
        "kept fresh"
    );

    // Whatever keeps the keys away is its own kind of failure.
    let closed = Setup::with("disk", &[]).twisted(|_, _| Some(refusal(403, "AccessDenied", "")));
    let closed = Store::start(closed).await;
    let closed = at(&closed);
    environment[2].1 = &closed;
    let (code, event) = hcs(home.path(), &environment, &["probe", IMAGE]).await;
    let reason = (code, &event["reason"]);
    assert_eq!(reason, (4, &"CredentialsRefused".into()), "{event}");
    environment[0].1 = "/no/such/token";
    let (code, event) = hcs(home.path(), &environment, &["probe", IMAGE]).await;
    let reason = (code, &event["reason"]);
    assert_eq!(reason, (4, &"InvalidCredentials".into()), "{event}");
}
