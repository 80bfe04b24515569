//! The bucket that was claimed for the system.

use super::*;

#[test]
fn the_default_store_is_the_systems_bucket_once_there_is_one() {
    let default = DefaultStore {
        claim: Some(SystemClaim {
            namespace: "system".into(),
            name: "hidden".into(),
        }),
        ..store()
    };
    let keys = [
        ("AWS_ACCESS_KEY_ID", "shared"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
    ];
    let map = [
        ("BUCKET_HOST", "rgw.rook.svc"),
        ("BUCKET_PORT", "80"),
        ("BUCKET_NAME", "ceph-bkt"),
    ];
    let map = object(Kind::ConfigMap, "system", "hidden", &map);
    let met = with(map.clone(), object(Kind::Secret, "system", "hidden", &keys));
    let own = secret(&[("accessKeyId", "own"), ("secretKey", "s3cret")]);
    let there = Some("http://rgw.rook.svc:80");
    let nowhere = Objects::new();
    let elsewhere = WantedObject {
        endpoint: Some("http://elsewhere:9000".into()),
        ..wanted_object()
    };
    let elsewhere_at = Some("http://elsewhere:9000");
    for (object, secret, objects, endpoint, signed) in [
        (wanted_object(), None, &nowhere, None, "DefaultChain"),
        (wanted_object(), None, &met, there, "shared/s3cret"),
        // Whoever shows his own keys is not given the operator's.
        (
            wanted_object(),
            Some("s"),
            &with(own.clone(), met.clone()),
            there,
            "own/s3cret",
        ),
        (wanted_object(), Some("s"), &own, None, "own/s3cret"),
        (elsewhere, None, &met, elsewhere_at, "Anonymous"),
    ] {
        let wanted = at_store(object, secret);
        let found = resolved(&wanted, &default, objects).unwrap();
        if signed.starts_with("shared") {
            assert_eq!(found.secrets, [format!("{DEFAULT_STORE}@7")]);
        }
        let (place, signing) = stored(found);
        assert_eq!((place.endpoint.as_deref(), &*signing), (endpoint, signed));
        assert_eq!(place.path_style, endpoint.is_some());
        // The bucket is the one that is named.
        assert_eq!(place.bucket, "images");
    }
    // A claim that was met half says what is missing, and no names.
    let wanted = at_store(wanted_object(), None);
    let problem = resolved(&wanted, &default, &map).unwrap_err();
    assert_eq!(problem.reason, "SecretNotFound");
    assert!(problem.message.contains(DEFAULT_STORE), "{problem:?}");
    assert!(!problem.message.contains("hidden"), "{problem:?}");
    // The claim of another team by this name is nothing to it.
    let foreign = with(
        object(Kind::ConfigMap, TEAM, "hidden", &[("BUCKET_HOST", "h")]),
        object(Kind::Secret, TEAM, "hidden", &keys),
    );
    let (place, _) = stored(resolved(&wanted, &default, &foreign).unwrap());
    assert_eq!(place.endpoint, None);
}
