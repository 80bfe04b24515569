//! Files from web servers.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::client::proxy::matcher::Matcher;
use hypercloud_api::{CaReference, HyperCloudStorageSpec};
use hypercloud_coordinator::storage::fetch::Library;
use hypercloud_storage::manifest::source::{MAX_FILE, Wanted};
use hypercloud_storage::version::Version;
use hypercloud_storage::version::table::{FILES, Project};
use serde_json::json;
use tokio::sync::Barrier;

use super::memory::Server;
use super::site::{Reply, Site, proxy};
use super::*;

const PATH: &str = "/m/cdi/v1.66.0/cdi-operator.yaml";

fn file() -> Reply {
    Reply::File(TEXT.into())
}

fn mirror(site: &Site) -> HyperCloudStorageSpec {
    http(&format!("http://127.0.0.1:{}/m/", site.port()))
}

#[tokio::test]
async fn a_file_is_fetched_once_and_anew_where_another_is_meant() {
    let (server, site) = (Server::default(), Site::plain().await);
    let library = library(&server, NEVER);
    site.set(PATH, file());
    let mut spec = mirror(&site);
    assert!(library.files(&spec).await.is_empty());
    assert!(library.fetch(&spec, &[cdi(), cdi()]).await);
    assert!(!library.clone().fetch(&spec, &[cdi()]).await);
    assert_eq!(site.asked(), [PATH]);
    let files = library.files(&spec).await;
    assert_eq!(files[&cdi()].as_ref().unwrap()[0]["metadata"]["name"], "a");

    // Another mirror with the same file, and back.
    let other = Site::plain().await;
    other.set(PATH, file());
    assert_eq!(tried(&library, &mirror(&other), &cdi()).await, Ok(1));
    assert_eq!(other.asked(), [PATH]);
    assert!(library.files(&spec).await.is_empty());

    // Another checksum, and none.
    spec.cdi.as_mut().unwrap().sha256 = Some("0".repeat(64));
    assert!(library.files(&spec).await.is_empty());
    let wrong = tried(&library, &spec, &cdi()).await;
    assert_eq!(reason(wrong), "ManifestChecksumWrong");
    spec.cdi.as_mut().unwrap().sha256 = None;
    site.asked();
    let unknown = tried(&library, &spec, &cdi()).await;
    assert_eq!(reason(unknown), "ManifestUnknown");
    assert!(site.asked().is_empty(), "fetched what cannot be checked");

    assert_eq!(tried(&library, &mirror(&site), &cdi()).await, Ok(1));
    library.clear().await;
    assert!(library.files(&mirror(&site)).await.is_empty());
}

#[tokio::test]
async fn every_trouble_has_its_reason_and_ends_when_it_is_put_right() {
    let server = Server::default();
    let large = vec![b'#'; MAX_FILE as usize + 1];
    let no_manifest = b"- 1\n".to_vec();
    for (reply, expected) in [
        (Reply::Status(404), "ManifestMissing"),
        (Reply::Status(410), "ManifestMissing"),
        (Reply::Status(403), "ManifestRefused"),
        (Reply::Status(401), "ManifestRefused"),
        (Reply::Status(204), "ManifestRefused"),
        (Reply::Status(503), "ManifestUnreachable"),
        (Reply::Status(429), "ManifestUnreachable"),
        (Reply::File(no_manifest), "ManifestChecksumWrong"),
        (Reply::File(Vec::new()), "ManifestChecksumWrong"),
        (Reply::File(large), "ManifestInvalid"),
        (Reply::Endless, "ManifestInvalid"),
        (Reply::To("ftp://127.0.0.1/x".into()), "ManifestRefused"),
        (Reply::To(PATH.into()), "ManifestRefused"),
    ] {
        let site = Site::plain().await;
        let library = library(&server, Duration::from_millis(1));
        site.set(PATH, reply);
        let first = tried(&library, &mirror(&site), &cdi()).await;
        assert_eq!(reason(first), expected);
        site.set(PATH, file());
        until_there(&library, &mirror(&site), &cdi()).await;
    }
}

#[tokio::test]
async fn what_the_checksum_fits_and_is_no_manifest_is_refused() {
    let (server, site) = (Server::default(), Site::plain().await);
    let library = library(&server, NEVER);
    let mut spec = mirror(&site);
    for bytes in [b"- 1\n".to_vec(), vec![0xff, 0xfe]] {
        spec.cdi.as_mut().unwrap().sha256 = Some(sha256(&bytes));
        site.set(PATH, Reply::File(bytes));
        let invalid = tried(&library, &spec, &cdi()).await;
        assert_eq!(reason(invalid), "ManifestInvalid");
    }
}

#[tokio::test]
async fn a_server_that_hangs_or_is_gone_is_given_up() {
    let (server, site) = (Server::default(), Site::plain().await);
    let mut terms = terms(NEVER);
    terms.whole = Duration::from_millis(200);
    let library = Library::with(server.client(), "system", terms);
    site.set(PATH, Reply::Hang);
    let hangs = tried(&library, &mirror(&site), &cdi()).await;
    assert_eq!(reason(hangs), "ManifestUnreachable");
    let closed = http("http://127.0.0.1:1/m");
    let gone = tried(&library, &closed, &cdi()).await.unwrap_err();
    assert_eq!(gone.reason(), "ManifestUnreachable");
    assert!(gone.to_string().contains("refused"), "{gone}");
    let unknown = http("http://no-such-host.invalid/m");
    let unknown = tried(&library, &unknown, &cdi()).await;
    assert_eq!(reason(unknown), "ManifestUnreachable");
    let credentials = http("http://me:word@127.0.0.1:1/m");
    let refused = tried(&library, &credentials, &cdi()).await;
    assert_eq!(reason(refused), "ManifestRefused");
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_is_not_asked_any_more() {
    let (server, hanging, other) = (Server::default(), Site::plain().await, Site::plain().await);
    let mut terms = terms(NEVER);
    terms.whole = NEVER;
    let library = Library::with(server.client(), "system", terms);
    hanging.set(PATH, Reply::Hang);
    other.set(PATH, file());
    let (fetching, spec) = (library.clone(), mirror(&hanging));
    let fetched = tokio::spawn(async move { fetching.fetch(&spec, &[cdi()]).await });
    let asked = async {
        while hanging.asked().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let limit = Duration::from_secs(30);
    tokio::time::timeout(limit, asked).await.unwrap();
    assert!(library.files(&mirror(&other)).await.is_empty());
    let ended = tokio::time::timeout(limit, fetched).await;
    assert!(ended.unwrap().unwrap(), "nobody looks again");
    assert_eq!(tried(&library, &mirror(&other), &cdi()).await, Ok(1));
}

#[tokio::test]
async fn what_failed_waits_for_its_time_or_for_a_place_that_answers() {
    let (server, site) = (Server::default(), Site::plain().await);
    let library = library(&server, NEVER);
    let spec = mirror(&site);
    site.set(PATH, Reply::Status(500));
    assert!(library.fetch(&spec, &[cdi()]).await);
    site.set(PATH, file());
    assert!(!library.fetch(&spec, &[cdi()]).await);
    assert_eq!(site.asked(), [PATH]);
    let other = wanted("other.yaml");
    site.set("/m/cdi/v1.66.0/other.yaml", file());
    assert_eq!(tried(&library, &spec, &other).await, Ok(1));
    assert_eq!(tried(&library, &spec, &cdi()).await, Ok(1));
}

#[tokio::test]
async fn a_failure_that_is_the_same_again_is_no_change() {
    let (server, site) = (Server::default(), Site::plain().await);
    let library = library(&server, Duration::ZERO);
    let spec = mirror(&site);
    assert!(library.fetch(&spec, &[cdi()]).await);
    assert!(!library.fetch(&spec, &[cdi()]).await);
    assert_eq!(site.asked().len(), 2);
    site.set(PATH, Reply::Status(500));
    assert!(library.fetch(&spec, &[cdi()]).await);
}

#[tokio::test]
async fn four_files_are_fetched_at_a_time() {
    let (server, site) = (Server::default(), Site::plain().await);
    let library = library(&server, NEVER);
    let barrier = Arc::new(Barrier::new(4));
    let rook = FILES.iter().filter(|file| file.project == Project::Rook);
    let wanted: Vec<Wanted> = rook
        .map(|file| Wanted {
            project: file.project,
            version: file.version,
            file: file.file.into(),
        })
        .take(8)
        .collect();
    assert_eq!(wanted.len(), 8);
    for wanted in &wanted {
        let path = format!("/m/{}", wanted.path());
        site.set(&path, Reply::Together(barrier.clone()));
    }
    let spec = mirror(&site);
    assert!(library.fetch(&spec, &wanted).await);
    for (_, file) in library.files(&spec).await {
        assert_eq!(file.unwrap_err().reason(), "ManifestChecksumWrong");
    }
}

#[tokio::test]
async fn of_two_releases_the_one_that_is_asked_for_is_kept() {
    let (server, site) = (Server::default(), Site::plain().await);
    let library = library(&server, NEVER);
    let spec = mirror(&site);
    let older = Wanted {
        version: Version::new(1, 65, 0),
        ..cdi()
    };
    site.set(PATH, file());
    site.set("/m/cdi/v1.65.0/cdi-operator.yaml", file());
    assert_eq!(tried(&library, &spec, &older).await, Ok(1));
    assert_eq!(tried(&library, &spec, &cdi()).await, Ok(1));
    let files = library.files(&spec).await;
    assert_eq!(files.into_keys().collect::<Vec<_>>(), [cdi()]);
}

#[tokio::test]
async fn a_server_may_send_on_five_times() {
    let (server, site) = (Server::default(), Site::plain().await);
    let spec = mirror(&site);
    for (times, expected) in [(5, Ok(1)), (6, Err("ManifestRefused"))] {
        let library = library(&server, NEVER);
        site.set(PATH, Reply::To("/1".into()));
        for time in 1..times {
            let to = format!("http://127.0.0.1:{}/{}", site.port(), time + 1);
            site.set(&format!("/{time}"), Reply::To(to));
        }
        site.set(&format!("/{times}"), file());
        let tried = tried(&library, &spec, &cdi()).await;
        assert_eq!(tried.map_err(|error| error.reason()), expected);
    }
}

#[tokio::test]
async fn a_server_is_believed_by_the_certificates_that_are_given() {
    let server = Server::default();
    let (site, pem) = Site::secure().await;
    let library = library(&server, Duration::ZERO);
    site.set(PATH, file());
    let mut spec = http(&format!("https://127.0.0.1:{}/m", site.port()));
    let untrusted = tried(&library, &spec, &cdi()).await;
    assert_eq!(reason(untrusted), "ManifestServerUntrusted");

    let http = spec.manifests.as_mut().unwrap().http.as_mut().unwrap();
    http.ca_config_map = Some(CaReference {
        name: "ca".into(),
        key: None,
    });
    let path = "/api/v1/namespaces/system/configmaps/ca";
    for content in [
        None,
        Some(json!({})),
        Some(json!({"ca.crt": "no certificate"})),
        Some(json!({"ca.crt": pem.replace("MII", "MIJ")})),
    ] {
        if let Some(content) = content {
            server.put(path, json!({"metadata": {"name": "ca"}, "data": content}));
        }
        let without = tried(&library, &spec, &cdi()).await;
        assert_eq!(reason(without), "ManifestAuthorityInvalid");
    }
    let content = json!({"words": "for people", "ca.crt": pem});
    server.put(path, json!({"metadata": {"name": "ca"}, "data": content}));
    until_there(&library, &spec, &cdi()).await;
    library.clear().await;

    let http = spec.manifests.as_mut().unwrap().http.as_mut().unwrap();
    let key = |key: &str| {
        Some(CaReference {
            name: "ca".into(),
            key: Some(key.into()),
        })
    };
    http.ca_config_map = key("gone");
    let missing = tried(&library, &spec, &cdi()).await;
    assert_eq!(reason(missing), "ManifestAuthorityInvalid");
    let http = spec.manifests.as_mut().unwrap().http.as_mut().unwrap();
    http.ca_config_map = key("ca.crt");
    assert_eq!(tried(&library, &spec, &cdi()).await, Ok(1));

    // Out of TLS nobody is followed.
    library.clear().await;
    let plain = Site::plain().await;
    plain.set("/x", file());
    let to = format!("http://127.0.0.1:{}/x", plain.port());
    site.set(PATH, Reply::To(to));
    let refused = tried(&library, &spec, &cdi()).await;
    assert_eq!(reason(refused), "ManifestRefused");
    assert!(plain.asked().is_empty());
}

#[tokio::test]
async fn proxies_are_asked_where_they_are_set() {
    let server = Server::default();
    let (secure, pem) = Site::secure().await;
    let plain = Site::plain().await;
    // In base64: me:word.
    let (port, asked) = proxy("Basic bWU6d29yZA==").await;
    let content = json!({"ca.crt": pem});
    server.put(
        "/api/v1/namespaces/system/configmaps/ca",
        json!({"metadata": {"name": "ca"}, "data": content}),
    );
    let through = |user: &str, except: &str| {
        let mut terms = terms(NEVER);
        let matcher = Matcher::builder()
            .all(format!("http://{user}127.0.0.1:{port}"))
            .no(except.to_owned());
        terms.proxies = Arc::new(matcher.build());
        Library::with(server.client(), "system", terms)
    };
    let mut tls = http(&format!("https://127.0.0.1:{}/m", secure.port()));
    let http = tls.manifests.as_mut().unwrap().http.as_mut().unwrap();
    http.ca_config_map = Some(CaReference {
        name: "ca".into(),
        key: None,
    });
    for (site, spec) in [(&plain, mirror(&plain)), (&secure, tls)] {
        site.set(PATH, file());
        let library = through("me:word@", "");
        assert_eq!(tried(&library, &spec, &cdi()).await, Ok(1));
        let expected = match site.port() == plain.port() {
            true => format!("GET http://127.0.0.1:{}{PATH} HTTP/1.1", plain.port()),
            false => format!("CONNECT 127.0.0.1:{} HTTP/1.1", secure.port()),
        };
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), [expected]);

        let stranger = tried(&through("", ""), &spec, &cdi()).await;
        let reason = reason(stranger);
        assert!(
            matches!(reason, "ManifestRefused" | "ManifestUnreachable"),
            "{reason}"
        );
        asked.lock().unwrap().clear();
        let library = through("", "127.0.0.0/8");
        assert_eq!(tried(&library, &spec, &cdi()).await, Ok(1));
        assert!(asked.lock().unwrap().is_empty());
    }
}
