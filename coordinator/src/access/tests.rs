//! Every way in, and everything that can be wrong with it.

mod system;

use hypercloud_api::CaReference;
use secrecy::ExposeSecret;

use super::wanted::WantedHeader;
use super::*;
use crate::agents::source::{ObjectPlace, Place, Signing, SourceUrl};

const TEAM: &str = "team";

fn object(kind: Kind, namespace: &str, name: &str, values: &[(&str, &str)]) -> Objects {
    let whose = match namespace {
        TEAM => Whose::Resource,
        _ => Whose::Operator,
    };
    let reference = Reference {
        whose,
        kind,
        namespace: namespace.into(),
        name: name.into(),
    };
    let values = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect();
    let version = "7".into();
    [(reference, Some(Content { version, values }))].into()
}

fn secret(values: &[(&str, &str)]) -> Objects {
    object(Kind::Secret, TEAM, "s", values)
}

fn with(mut objects: Objects, more: Objects) -> Objects {
    objects.extend(more);
    objects
}

fn store() -> DefaultStore {
    DefaultStore {
        namespace: "system".into(),
        ..DefaultStore::default()
    }
}

fn resolved(
    wanted: &WantedSource,
    store: &DefaultStore,
    objects: &Objects,
) -> Result<Resolved<Source>, Problem> {
    let scope = Scope {
        namespace: TEAM,
        store,
    };
    // Only what was asked for is there to be used.
    let asked = references(wanted, scope);
    let objects = asked
        .into_iter()
        .map(|reference| {
            let found = objects.get(&reference).cloned().flatten();
            (reference, found)
        })
        .collect();
    resolve(wanted, scope, &objects)
}

fn web(secret: Option<&str>, headers: &[(&str, &str)], secret_headers: &[&str]) -> WantedSource {
    WantedSource {
        place: WantedPlace::Http {
            url: SourceUrl::new("https://h/i"),
            headers: headers
                .iter()
                .map(|(name, value)| WantedHeader {
                    name: (*name).into(),
                    value: (*value).into(),
                })
                .collect(),
            secret_headers: secret_headers.iter().map(|name| (*name).into()).collect(),
        },
        secret: secret.map(Into::into),
        ca: None,
    }
}

fn wanted_object() -> WantedObject {
    WantedObject {
        bucket: Some("images".into()),
        key: "disk".into(),
        endpoint: None,
        region: None,
        path_style: None,
        claim: None,
    }
}

fn at_store(object: WantedObject, secret: Option<&str>) -> WantedSource {
    WantedSource {
        place: WantedPlace::Object(object),
        secret: secret.map(Into::into),
        ca: None,
    }
}

fn reason(result: Result<Resolved<Source>, Problem>) -> String {
    let problem = result.expect_err("a problem");
    assert!(!problem.message.contains("s3cret"), "{problem:?}");
    assert!(problem.message.contains("goes on"), "{problem:?}");
    problem.reason
}

type Pair = (String, String);

/// User and password, and headers, of a web server.
fn shown(resolved: Resolved<Source>) -> (Option<Pair>, Vec<Pair>) {
    let Place::Http { basic, headers, .. } = resolved.what.place else {
        panic!("no web server");
    };
    let text = |secret: &secrecy::SecretString| secret.expose_secret().to_owned();
    let basic = basic.map(|basic| (text(&basic.username), text(&basic.password)));
    let headers = headers
        .iter()
        .map(|(name, value)| (name.clone(), text(value)));
    (basic, headers.collect())
}

/// Place and keys of an object.
fn stored(resolved: Resolved<Source>) -> (ObjectPlace, String) {
    let Place::Object { object, signing } = resolved.what.place else {
        panic!("no object store");
    };
    let signing = match signing {
        Signing::Keys { id, key, token } => [Some(id), Some(key), token]
            .iter()
            .flatten()
            .map(|part| part.expose_secret())
            .collect::<Vec<_>>()
            .join("/"),
        other => format!("{other:?}"),
    };
    (object, signing)
}

#[test]
fn a_web_server_is_shown_what_the_secret_says_under_either_name() {
    for keys in [["username", "password"], ["accessKeyId", "secretKey"]] {
        let objects = secret(&[(keys[0], "reader"), (keys[1], "s3cret")]);
        let resolved = resolved(&web(Some("s"), &[], &[]), &store(), &objects).unwrap();
        assert_eq!(resolved.secrets, ["s@7"]);
        let login = Some(("reader".into(), "s3cret".into()));
        assert_eq!(shown(resolved), (login, vec![]));
    }
    let open = resolved(&web(None, &[], &[]), &store(), &Objects::new()).unwrap();
    assert!(open.secrets.is_empty());
    assert_eq!(shown(open), (None, vec![]));
}

#[test]
fn headers_come_from_the_resource_and_from_secrets() {
    let objects = secret(&[
        ("a", "Authorization: Bearer s3cret\n"),
        ("b", "X-Time: 10:20"),
    ]);
    let wanted = web(None, &[("X-Plain", "1")], &["s"]);
    let resolved = resolved(&wanted, &store(), &objects).unwrap();
    let headers = [
        ("X-Plain", "1"),
        ("Authorization", "Bearer s3cret"),
        ("X-Time", "10:20"),
    ];
    let headers = headers.map(|(name, value)| (name.into(), value.into()));
    assert_eq!(shown(resolved), (None, headers.to_vec()));
}

#[test]
fn what_is_missing_or_wrong_is_said_without_its_value() {
    let login = web(Some("s"), &[], &[]);
    let headers = web(None, &[], &["s"]);
    let both = web(None, &[("authorization", "Bearer x")], &["s"]);
    let none = Objects::new();
    assert_eq!(reason(resolved(&login, &store(), &none)), "SecretNotFound");
    let ca = WantedSource {
        ca: Some(CaReference {
            name: "ca".into(),
            key: None,
        }),
        ..web(None, &[], &[])
    };
    assert_eq!(reason(resolved(&ca, &store(), &none)), "ConfigMapNotFound");
    let cases: [(&WantedSource, &[(&str, &str)]); 10] = [
        (&login, &[("username", "s3cret")]),
        (&login, &[("username", "s3cret"), ("secretKey", "s3cret")]),
        (&login, &[("username", "u"), ("password", "s3cret\n")]),
        (&login, &[("username", "s3cret:"), ("password", "s3cret")]),
        (&login, &[("username", "u"), ("password", "s3\0cret")]),
        (&headers, &[("a", "s3cret")]),
        (&headers, &[("a", "X: s3cret\r\nHost: inside")]),
        (&headers, &[("a", "X Y: s3cret")]),
        (&headers, &[("a", "Range: s3cret")]),
        (&both, &[("a", "Authorization: s3cret")]),
    ];
    for (wanted, values) in cases {
        let found = resolved(wanted, &store(), &secret(values));
        assert_eq!(reason(found), "InvalidSecret", "{values:?}");
    }
}

#[test]
fn whose_store_it_is_decides_whose_keys_sign() {
    let default = DefaultStore {
        endpoint: Some("https://s3.system".into()),
        region: Some("there".into()),
        secret: Some("shared".into()),
        ..store()
    };
    let keys = [("accessKeyId", "own"), ("secretKey", "s3cret")];
    let shared = [
        ("AWS_ACCESS_KEY_ID", "shared"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ("AWS_SESSION_TOKEN", "token"),
    ];
    let objects = with(
        secret(&keys),
        object(Kind::Secret, "system", "shared", &shared),
    );
    let elsewhere = WantedObject {
        endpoint: Some("http://elsewhere:9000".into()),
        ..wanted_object()
    };
    let amazon = store();
    // Whose store, which object, its Secret; endpoint and signature.
    type Case<'a> = (
        &'a DefaultStore,
        WantedObject,
        Option<&'a str>,
        Option<&'a str>,
        &'a str,
    );
    let cases: [Case<'_>; 6] = [
        (&amazon, wanted_object(), None, None, "DefaultChain"),
        (&amazon, wanted_object(), Some("s"), None, "own/s3cret"),
        (
            &default,
            wanted_object(),
            None,
            Some("https://s3.system"),
            "shared/s3cret/token",
        ),
        (
            &default,
            wanted_object(),
            Some("s"),
            Some("https://s3.system"),
            "own/s3cret",
        ),
        // Nobody else's keys for a server that the image names.
        (
            &default,
            elsewhere.clone(),
            None,
            Some("http://elsewhere:9000"),
            "Anonymous",
        ),
        (
            &default,
            elsewhere,
            Some("s"),
            Some("http://elsewhere:9000"),
            "own/s3cret",
        ),
    ];
    for (store, object, secret, endpoint, signed) in cases {
        let wanted = at_store(object, secret);
        let (place, signing) = stored(resolved(&wanted, store, &objects).unwrap());
        assert_eq!(signing, signed, "{wanted:?}");
        assert_eq!(place.endpoint.as_deref(), endpoint);
        assert_eq!(place.path_style, endpoint.is_some());
        let there = endpoint == Some("https://s3.system");
        assert_eq!(place.region.as_deref(), there.then_some("there"));
    }
}

#[test]
fn a_bucket_claim_says_where_the_bucket_is_and_lets_in() {
    let keys = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
    ];
    let claimed = WantedObject {
        bucket: None,
        claim: Some("obc".into()),
        ..wanted_object()
    };
    for (host, port, endpoint) in [
        ("rgw.rook.svc", "80", "http://rgw.rook.svc:80"),
        ("rgw.rook.svc", "443", "https://rgw.rook.svc:443"),
        ("fd00::1", "8443", "https://[fd00::1]:8443"),
    ] {
        let map = [
            ("BUCKET_HOST", host),
            ("BUCKET_PORT", port),
            ("BUCKET_NAME", "ceph-bkt"),
            ("BUCKET_REGION", ""),
        ];
        let objects = with(
            object(Kind::Secret, TEAM, "obc", &keys),
            object(Kind::ConfigMap, TEAM, "obc", &map),
        );
        let wanted = at_store(claimed.clone(), None);
        let found = resolved(&wanted, &store(), &objects).unwrap();
        assert_eq!(found.secrets, ["obc@7"]);
        let (place, signing) = stored(found);
        assert_eq!(signing, "id/s3cret");
        let expected = ObjectPlace {
            bucket: "ceph-bkt".into(),
            key: "disk".into(),
            endpoint: Some(endpoint.into()),
            region: None,
            path_style: true,
        };
        assert_eq!(place, expected);
    }
    let map = [("BUCKET_HOST", "a b"), ("BUCKET_NAME", "x")];
    for (map, said) in [
        (&map[..], "InvalidConfigMap"),
        (&map[1..], "InvalidConfigMap"),
    ] {
        let objects = with(
            object(Kind::Secret, TEAM, "obc", &keys),
            object(Kind::ConfigMap, TEAM, "obc", map),
        );
        let wanted = at_store(claimed.clone(), None);
        assert_eq!(reason(resolved(&wanted, &store(), &objects)), said);
    }
}

#[test]
fn certificates_are_found_at_every_key_or_at_the_one_named() {
    let now = k8s_openapi::jiff::Timestamp::now();
    let pem = crate::tls::issue::authority(now).unwrap().certificate;
    let trusting = |key: Option<&str>| WantedSource {
        ca: Some(CaReference {
            name: "ca".into(),
            key: key.map(Into::into),
        }),
        ..web(None, &[], &[])
    };
    let map = |values: &[(&str, &str)]| object(Kind::ConfigMap, TEAM, "ca", values);
    let many = map(&[("README", "ours"), ("a.crt", &pem), ("b.pem", &pem)]);
    let bundle = |wanted: &WantedSource| {
        let found = resolved(wanted, &store(), &many).unwrap();
        found.what.authorities.unwrap_or_default()
    };
    let count = |text: &str| text.matches("BEGIN CERTIFICATE").count();
    assert_eq!(count(&bundle(&trusting(None))), 2);
    assert_eq!(count(&bundle(&trusting(Some("a.crt")))), 1);
    let broken = pem.replace('M', "N");
    let cut = &pem[..pem.len() / 2];
    for (key, objects, said) in [
        (Some("c"), &many, "InvalidConfigMap"),
        (Some("README"), &many, "InvalidCertificate"),
        (None, &map(&[]), "InvalidCertificate"),
        (None, &map(&[("a", &broken)]), "InvalidCertificate"),
        (None, &map(&[("a", cut)]), "InvalidCertificate"),
    ] {
        let found = resolved(&trusting(key), &store(), objects);
        assert_eq!(reason(found), said, "{key:?}");
    }
}

#[test]
fn the_operators_store_may_have_certificates_of_its_own() {
    let now = k8s_openapi::jiff::Timestamp::now();
    let pem = crate::tls::issue::authority(now).unwrap().certificate;
    let default = DefaultStore {
        ca_config_map: Some("ca".into()),
        ..store()
    };
    let wanted = at_store(wanted_object(), None);
    let missing = resolved(&wanted, &default, &Objects::new());
    assert_eq!(reason(missing), "ConfigMapNotFound");
    let objects = object(Kind::ConfigMap, "system", "ca", &[("ca.crt", &pem)]);
    let found = resolved(&wanted, &default, &objects).unwrap();
    assert_eq!(
        found.what.authorities,
        Some(pem.trim_end().to_owned() + "\n")
    );
    assert!(!is_guarded(
        &wanted,
        Scope {
            namespace: TEAM,
            store: &default
        }
    ));
}

#[test]
fn the_names_of_the_operators_objects_are_not_told() {
    let default = DefaultStore {
        secret: Some("hidden".into()),
        ca_config_map: Some("hidden".into()),
        ..store()
    };
    let wanted = at_store(wanted_object(), None);
    let keys = |value: &str| {
        let keys = [("accessKeyId", "id"), ("secretKey", value)];
        object(Kind::Secret, "system", "hidden", &keys)
    };
    let map = object(Kind::ConfigMap, "system", "hidden", &[("ca.crt", "x")]);
    for (objects, said) in [
        (Objects::new(), "ConfigMapNotFound"),
        (map.clone(), "InvalidCertificate"),
    ] {
        let problem = resolved(&wanted, &default, &objects).unwrap_err();
        assert_eq!(problem.reason, said);
        assert!(problem.message.contains(DEFAULT_STORE), "{problem:?}");
        assert!(!problem.message.contains("hidden"), "{problem:?}");
        assert!(!problem.message.contains("system"), "{problem:?}");
    }
    let default = DefaultStore {
        ca_config_map: None,
        ..default
    };
    for (objects, said) in [
        (Objects::new(), "SecretNotFound"),
        (keys("s3cret\n"), "InvalidSecret"),
    ] {
        let problem = resolved(&wanted, &default, &objects).unwrap_err();
        assert_eq!(problem.reason, said);
        assert!(problem.message.contains(DEFAULT_STORE), "{problem:?}");
        assert!(!problem.message.contains("hidden"), "{problem:?}");
    }
    let found = resolved(&wanted, &default, &keys("s3cret")).unwrap();
    assert_eq!(found.secrets, ["the operator's default object store@7"]);
}
