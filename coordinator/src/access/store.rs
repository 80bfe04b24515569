//! Which object store an object is in, and how requests to it are signed.
//!
//! Whose store it is decides whose keys sign: a resource that names its own
//! endpoint is never served with the operator's keys, nor with the agents'
//! own, or everybody who can make one could have requests signed for a server
//! of his.
//!
//! The operator's store is the one that the coordinator was told of, else the
//! bucket that was claimed for the system, as soon as its claim was met, else
//! Amazon's.

use hypercloud_api::CaReference;

use super::authorities::{certificates, of_resource};
use super::wanted::WantedObject;
use super::{Content, Kind, Objects, Reference, Scope, SystemClaim, content, invalid, pair, text};
use crate::agents::source::{ObjectPlace, Signing, Stored};
use crate::holder::Problem;

/// Keys of the access keys: CDI's names, and Amazon's.
const KEYS: [(&str, &str); 2] = [
    ("accessKeyId", "secretKey"),
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
];
/// Key of the token that comes with temporary keys.
const TOKEN: &str = "AWS_SESSION_TOKEN";

/// What a resource says of an object, and of what lets in there.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    /// The object.
    pub object: &'a WantedObject,
    /// Name of the resource's own Secret.
    pub secret: Option<&'a str>,
    /// The resource's own ConfigMap with certificates.
    pub ca: Option<&'a CaReference>,
}

/// Whose store an object is in.
enum Owner<'a> {
    /// The one that the resource's ObjectBucketClaim was given.
    Claim(&'a str),
    /// The one at the endpoint that the resource names.
    Resource,
    /// The one that the operator set up.
    System,
}

fn owner(object: &WantedObject) -> Owner<'_> {
    match (&object.claim, &object.endpoint) {
        (Some(claim), _) => Owner::Claim(claim),
        (None, Some(_)) => Owner::Resource,
        (None, None) => Owner::System,
    }
}

/// The objects that an object store asks for, beside the resource's own Secret
/// and certificates.
pub(super) fn references(asked: Asked<'_>, scope: Scope<'_>) -> Vec<Reference> {
    match owner(asked.object) {
        Owner::Claim(claim) => [Kind::ConfigMap, Kind::Secret]
            .map(|kind| scope.of_resource(kind, claim))
            .to_vec(),
        Owner::Resource => Vec::new(),
        Owner::System => {
            if let Some(claim) = &scope.store.claim {
                let map = claim.reference(Kind::ConfigMap);
                let secret = claim.reference(Kind::Secret);
                let secret = Some(secret).filter(|_| asked.secret.is_none());
                return std::iter::once(map).chain(secret).collect();
            }
            let secret = scope.store.secret.as_deref();
            let ca = scope.store.ca_config_map.as_deref();
            let secret = secret.filter(|_| asked.secret.is_none());
            let ca = ca.filter(|_| asked.ca.is_none());
            [(Kind::Secret, secret), (Kind::ConfigMap, ca)]
                .into_iter()
                .filter_map(|(kind, name)| Some(scope.of_system(kind, name?)))
                .collect()
        }
    }
}

/// The object, and how it is reached.
pub(super) fn object(
    asked: Asked<'_>,
    scope: Scope<'_>,
    objects: &Objects,
) -> Result<Stored, Problem> {
    let object = asked.object;
    let mut authorities = of_resource(asked.ca, scope, objects)?;
    let mut place = ObjectPlace {
        bucket: object.bucket.clone().unwrap_or_default(),
        key: object.key.clone(),
        endpoint: object.endpoint.clone(),
        region: object.region.clone(),
        path_style: false,
    };
    let mut path_style = object.path_style;
    let mut secret = asked
        .secret
        .map(|name| scope.of_resource(Kind::Secret, name));
    let mut without = Signing::Anonymous;
    let private = authorities.is_some();
    match (owner(object), met(scope, objects)) {
        (Owner::Claim(claim), _) => {
            let map = scope.of_resource(Kind::ConfigMap, claim);
            claimed(&mut place, &map, content(objects, &map)?, private)?;
            secret.get_or_insert_with(|| scope.of_resource(Kind::Secret, claim));
        }
        (Owner::Resource, _) => {}
        (Owner::System, Some((claim, content))) => {
            let map = claim.reference(Kind::ConfigMap);
            claimed(&mut place, &map, content, private)?;
            secret.get_or_insert_with(|| claim.reference(Kind::Secret));
        }
        (Owner::System, None) => {
            let store = scope.store;
            place.endpoint = store.endpoint.clone();
            place.region = place.region.or_else(|| store.region.clone());
            path_style = path_style.or(store.path_style);
            let default = store.secret.as_deref();
            secret = secret.or_else(|| Some(scope.of_system(Kind::Secret, default?)));
            if let (None, Some(name)) = (&authorities, &store.ca_config_map) {
                let map = scope.of_system(Kind::ConfigMap, name);
                authorities = Some(certificates(&map, content(objects, &map)?, None)?);
            }
            without = Signing::DefaultChain;
        }
    }
    place.path_style = path_style.unwrap_or(place.endpoint.is_some());
    let signing = match &secret {
        Some(secret) => keys(secret, content(objects, secret)?)?,
        None => without,
    };
    Ok(Stored {
        place,
        signing,
        authorities,
    })
}

/// The system's claim and its ConfigMap, where it has one.
fn met<'a>(scope: Scope<'a>, objects: &'a Objects) -> Option<(&'a SystemClaim, &'a Content)> {
    let claim = scope.store.claim.as_ref()?;
    let map = objects.get(&claim.reference(Kind::ConfigMap))?;
    Some((claim, map.as_ref()?))
}

/// Fills in what an ObjectBucketClaim's ConfigMap says, where the resource does
/// not say it itself; `private` says whether the store's certificates are of
/// a private authority.
fn claimed(
    place: &mut ObjectPlace,
    map: &Reference,
    content: &Content,
    private: bool,
) -> Result<(), Problem> {
    let value = |key: &str| Ok(text(map, content, key)?.filter(|value| !value.is_empty()));
    let needed = |key: &str| value(key)?.ok_or_else(|| invalid(map, format!("has no key {key}")));
    if place.bucket.is_empty() {
        place.bucket = needed("BUCKET_NAME")?.to_owned();
    }
    if place.region.is_none() {
        place.region = value("BUCKET_REGION")?.map(str::to_owned);
    }
    if place.endpoint.is_none() {
        let host = needed("BUCKET_HOST")?;
        let host = match host.parse::<std::net::Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => host.to_owned(),
        };
        let port = value("BUCKET_PORT")?;
        // The ConfigMap does not say which protocol the port speaks.
        let secure = private || matches!(port, Some("443" | "8443"));
        let scheme = if secure { "https" } else { "http" };
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        let endpoint = format!("{scheme}://{host}{port}");
        if url::Url::parse(&endpoint).is_err() {
            return Err(invalid(
                map,
                "has no usable address in BUCKET_HOST and BUCKET_PORT",
            ));
        }
        place.endpoint = Some(endpoint);
    }
    Ok(())
}

fn keys(secret: &Reference, content: &Content) -> Result<Signing, Problem> {
    let (id, key) = pair(secret, content, &KEYS)?;
    Ok(Signing::Keys {
        id: id.into(),
        key: key.into(),
        token: text(secret, content, TOKEN)?.map(Into::into),
    })
}
