//! Object stores: a real implementation of the protocol that verifies
//! signatures, and one that misbehaves.

use std::net::Ipv6Addr;
use std::sync::Arc;

use hypercloud_transfer::{
    AddressPolicy, ObjectStore, ObjectStoreCredentials, Options, Secret, Side, SourceSpec,
    StoredObject, TransferError, probe,
};
use s3s::Body;

use crate::image::{assert_same, disk, qcow2, raw};
use crate::store::{BUCKET, KEYS, Setup, Store, refusal};
use crate::watch::{file, options, run};

fn keys() -> ObjectStoreCredentials {
    ObjectStoreCredentials::Keys {
        access_key_id: KEYS.0.into(),
        secret_access_key: Secret::new(KEYS.1),
        session_token: None,
    }
}

/// An object in the store at an address, asked for with the right keys.
fn object(endpoint: &str, key: &str) -> StoredObject {
    StoredObject {
        bucket: BUCKET.into(),
        key: key.into(),
        store: ObjectStore {
            endpoint: Some(endpoint.parse().unwrap()),
            region: Some("us-east-1".into()),
            path_style: true,
            credentials: keys(),
            authorities: None,
        },
    }
}

fn at(store: &Store) -> String {
    format!("http://{}", store.address)
}

/// The store by the name below which its buckets have theirs.
fn named(store: &Store) -> String {
    format!("http://localhost:{}", store.address.port())
}

async fn fetch(source: StoredObject) -> Result<Vec<u8>, TransferError> {
    let target = tempfile::tempdir().unwrap();
    let source = SourceSpec::ObjectStore(source);
    run(source, file(target.path()), &options()).await?;
    Ok(std::fs::read(target.path().join("disk.img")).unwrap())
}

/// Looks at an object, expecting to fail; nothing secret is in the words.
async fn fail(source: StoredObject) -> TransferError {
    let error = probe(&SourceSpec::ObjectStore(source), &options())
        .await
        .expect_err("the probe should fail");
    let words = format!("{} {error:?}", error.message());
    for secret in [KEYS.1, "X-Amz-Signature", "X-Amz-Credential"] {
        assert!(!words.contains(secret), "{words}");
    }
    error
}

#[tokio::test]
async fn an_image_comes_in_ranges_each_signed() {
    let bytes = disk(61, 12 << 20);
    let directory = tempfile::tempdir().unwrap();
    let source = raw(directory.path(), "source.raw", &bytes);
    let image = std::fs::read(qcow2(&source, "image.qcow2", &["-c"])).unwrap();
    let store = Store::start(Setup::with("disk.qcow2", &image)).await;
    assert_same(
        &fetch(object(&at(&store), "disk.qcow2")).await.unwrap(),
        &bytes,
        "from a store",
    );
    let seen = store.seen();
    assert!(seen.len() > 2, "{seen:?}");
    assert!(seen.iter().all(|asked| asked.contains("X-Amz-Signature")));
}

#[tokio::test]
async fn every_form_of_endpoint_leads_to_the_bucket() {
    let bytes = disk(62, 100_352);
    let store = Store::start(Setup::with("a disk", &bytes)).await;
    let port = store.address.port();
    for (endpoint, path_style, host) in [
        (
            at(&store),
            true,
            format!("127.0.0.1:{port}/images/a%20disk"),
        ),
        // A bucket cannot stand before an IP address.
        (
            at(&store),
            false,
            format!("127.0.0.1:{port}/images/a%20disk"),
        ),
        (
            at(&store) + "/",
            true,
            format!("127.0.0.1:{port}/images/a%20disk"),
        ),
        (
            named(&store),
            true,
            format!("localhost:{port}/images/a%20disk"),
        ),
        (
            named(&store),
            false,
            format!("images.localhost:{port}/a%20disk"),
        ),
        (
            named(&store) + "/",
            false,
            format!("images.localhost:{port}/a%20disk"),
        ),
    ] {
        let mut source = object(&endpoint, "a disk");
        source.store.path_style = path_style;
        assert_same(&fetch(source).await.unwrap(), &bytes, &endpoint);
        let seen = store.seen();
        let last = seen.last().unwrap();
        assert!(last.starts_with(&format!("{host}?")), "{endpoint}: {last}");
    }
}

#[tokio::test]
async fn an_endpoint_may_be_an_ipv6_address() {
    let bytes = disk(63, 4096);
    let setup = Setup {
        address: Ipv6Addr::LOCALHOST.into(),
        ..Setup::with("disk", &bytes)
    };
    let store = Store::start(setup).await;
    let mut source = object(&at(&store), "disk");
    source.store.path_style = false;
    assert_same(&fetch(source).await.unwrap(), &bytes, "IPv6");
}

#[tokio::test]
async fn a_key_is_asked_for_as_it_is() {
    for key in [
        "folder/disk.img",
        "a b+c%2Fd&e=f?g#h",
        "ünï/çødé/磁盘",
        "/leading",
        "double//slash",
        "../up",
        "a/../b/./c",
        "a/..",
        "%2e%2e/x",
        "quote's (and) more!*",
        "trailing/",
    ] {
        let mut setup = Setup::with(key, &[1; 2048]);
        // What a key must not turn into is of another size.
        for other in ["up", "b/c", "leading", "double/slash", "x"] {
            setup.objects.insert(other.into(), vec![7; 512].into());
        }
        let store = Store::start(setup).await;
        for endpoint in [at(&store), named(&store)] {
            let mut source = object(&endpoint, key);
            source.store.path_style = false;
            let found = probe(&SourceSpec::ObjectStore(source), &options()).await;
            let found = found.unwrap_or_else(|error| panic!("{key}: {}", error.message()));
            assert_eq!(found.source_size, Some(2048), "{key}");
        }
    }
}

#[tokio::test]
async fn everybody_may_read_what_is_public() {
    let bytes = disk(65, 9000);
    let setup = Setup {
        public: true,
        ..Setup::with("disk", &bytes)
    };
    let store = Store::start(setup).await;
    let mut source = object(&at(&store), "disk");
    source.store.credentials = ObjectStoreCredentials::Anonymous;
    let found = fetch(source.clone()).await.unwrap();
    assert_same(&found[..9000], &bytes, "anonymous");
    assert!(store.seen().iter().all(|asked| !asked.contains('?')));

    let closed = Store::start(Setup::with("disk", &bytes)).await;
    source.store.endpoint = Some(at(&closed).parse().unwrap());
    assert_eq!(fail(source).await.reason(), "CredentialsRequired");
}

#[tokio::test]
async fn what_is_wrong_is_named_and_final() {
    let store = Store::start(Setup::with("disk", &[1; 512])).await;
    let good = || object(&at(&store), "disk");
    let with = |access_key_id: &str, secret: &str| StoredObject {
        store: ObjectStore {
            credentials: ObjectStoreCredentials::Keys {
                access_key_id: access_key_id.into(),
                secret_access_key: Secret::new(secret),
                session_token: None,
            },
            ..good().store
        },
        ..good()
    };
    let bucket = |bucket: &str| StoredObject {
        bucket: bucket.into(),
        ..good()
    };
    for (source, reason, words) in [
        (bucket("nothing-here"), "NoSuchBucket", "nothing-here"),
        (object(&at(&store), "nothing"), "NoSuchKey", "nothing"),
        (with("AKIDUNKNOWN", KEYS.1), "UnknownAccessKey", "correct"),
        (with(KEYS.0, "wrong"), "SignatureDoesNotMatch", "secret key"),
        (bucket("../x"), "InvalidBucketName", "../x"),
        (object(&at(&store), ".."), "InvalidKey", "rename"),
        (
            object("http://me@127.0.0.1/", "disk"),
            "InvalidEndpoint",
            "user",
        ),
    ] {
        let error = fail(source).await;
        assert_eq!(error.reason(), reason);
        assert!(!error.is_retryable(), "{reason}");
        assert_eq!(error.side(), Side::Source);
        assert!(error.message().contains(words), "{}", error.message());
    }
    let asked = store.seen().len();
    assert_eq!(asked, 4, "none is asked for twice, the last not at all");
}

#[tokio::test]
async fn the_address_policy_holds_for_stores() {
    let store = Store::start(Setup::with("disk", &[1; 512])).await;
    let strict = Options {
        address_policy: AddressPolicy::PublicAndPrivate,
        ..options()
    };
    for endpoint in [at(&store), named(&store), "http://169.254.169.254".into()] {
        for bucket in [BUCKET, "images--use1-az4--x-s3"] {
            let mut source = object(&endpoint, "disk");
            source.store.path_style = false;
            source.bucket = bucket.into();
            let error = probe(&SourceSpec::ObjectStore(source), &strict)
                .await
                .unwrap_err();
            assert_eq!(error.reason(), "AddressRefused", "{endpoint} {bucket}");
        }
    }
    assert!(store.seen().is_empty());
}

#[tokio::test]
async fn bursts_and_expired_signatures_are_ridden_out() {
    let bytes = disk(66, 12 << 20);
    let setup = Setup::with("disk", &bytes).twisted(|_, number| match number % 5 {
        1 | 2 => Some(refusal(503, "SlowDown", "<Message>Reduce</Message>")),
        3 if number < 5 => Some(refusal(
            403,
            "AccessDenied",
            "<Message>Request has expired</Message>",
        )),
        4 => Some(refusal(500, "InternalError", "")),
        _ => None,
    });
    let store = Store::start(setup).await;
    let found = fetch(object(&at(&store), "disk")).await.unwrap();
    assert_same(&found, &bytes, "bursts");
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let few = Options {
        retries: 1,
        ..options()
    };
    for (status, code, rest, reason, again) in [
        (403, "AccessDenied", "", "AccessDenied", false),
        (403, "RequestTimeTooSkewed", "", "ClockSkewed", true),
        (400, "ExpiredToken", "", "KeysExpired", false),
        (503, "SlowDown", "", "SlowDown", true),
        (301, "PermanentRedirect", "", "WrongRegion", false),
        (
            400,
            "AuthorizationHeaderMalformed",
            "<Region>eu-west-3</Region>",
            "WrongRegion",
            false,
        ),
        (403, "InvalidObjectState", "", "ObjectArchived", false),
        (400, "KMS.DisabledException", "", "ObjectStoreError", false),
    ] {
        let setup = Setup::with("disk", &[1; 512]).twisted(move |_, _| {
            let mut answer = refusal(status, code, rest);
            let region = "eu-west-3".parse().unwrap();
            answer.headers_mut().insert("x-amz-bucket-region", region);
            Some(answer)
        });
        let store = Store::start(setup).await;
        let source = SourceSpec::ObjectStore(object(&at(&store), "disk"));
        let error = probe(&source, &few).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{code}");
        assert_eq!(error.is_retryable(), again, "{code}");
        assert_eq!(store.seen().len(), if again { 2 } else { 1 }, "{code}");
        if reason == "WrongRegion" {
            assert!(error.message().contains("eu-west-3"), "{}", error.message());
        }
    }
}

#[tokio::test]
async fn a_refusal_that_calls_itself_success_is_no_image() {
    let setup = Setup::with("disk", &[1; 512])
        .twisted(|_, _| Some(refusal(200, "InternalError", "<Message>x</Message>")));
    let store = Store::start(setup).await;
    let error = fail(object(&at(&store), "disk")).await;
    assert_eq!(error.reason(), "ObjectStoreError");
}

#[tokio::test]
async fn bodies_that_are_no_word_of_a_store_leave_the_status() {
    let page = || Body::from(b"<html>not here</html>".to_vec());
    let setup = Setup::with("disk", &[1; 512])
        .twisted(move |_, _| Some(hyper::Response::builder().status(404).body(page()).unwrap()));
    let store = Store::start(setup).await;
    let error = fail(object(&at(&store), "disk")).await;
    assert_eq!(error.reason(), "NotFound");
}

#[tokio::test]
async fn a_store_is_trusted_by_the_authorities_given() {
    let made =
        rcgen::generate_simple_self_signed(["localhost".to_owned(), "images.localhost".to_owned()])
            .unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    let bytes = disk(67, 3 << 20);
    let setup = Setup {
        tls: Some(Arc::new(config)),
        ..Setup::with("disk", &bytes)
    };
    let store = Store::start(setup).await;
    let endpoint = named(&store).replace("http", "https");
    for path_style in [true, false] {
        let mut source = object(&endpoint, "disk");
        source.store.path_style = path_style;
        let error = fail(source.clone()).await;
        assert_eq!(error.reason(), "CertificateInvalid");
        source.store.authorities = Some(made.cert.pem());
        assert_same(&fetch(source).await.unwrap(), &bytes, "over TLS");
    }
}
