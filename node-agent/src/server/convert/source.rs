//! A source or an object in a request: where it is, and apart from that how
//! it is reached.

use axum::http::{HeaderName, HeaderValue};
use hypercloud_proto::agent::v1 as proto;
use proto::source::Kind;
use proto::stored_object::Credentials;

use crate::job::state::Failure;
use crate::source::{
    Access, BasicCredentials, Header, HttpUrl, ObjectLocation, Secret, Signing, Source, UrlError,
};

/// Why a source in a request is none.
#[derive(Debug, thiserror::Error)]
pub(in crate::server) enum SourceError {
    #[error("the request names no source")]
    Missing,
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("{0:?} is no name of a header")]
    HeaderName(String),
    #[error("the value of the header {0} is none that a request can hold")]
    HeaderValue(String),
    #[error("the request names no bucket or no object")]
    Object,
    #[error("the request does not say how to sign requests to the object store")]
    Unsigned,
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Failure {
            reason: "InvalidSource".to_owned(),
            message: crate::job::drive::chain(&error),
            retryable: false,
        }
    }
}

/// The source, and how it is reached.
pub(in crate::server) fn source(
    source: Option<proto::Source>,
) -> Result<(Source, Access), SourceError> {
    match source.and_then(|s| s.kind).ok_or(SourceError::Missing)? {
        Kind::Http(http) => web(http),
        Kind::ObjectStore(stored) => {
            let (location, access) = object(stored)?;
            Ok((Source::ObjectStore(location), access))
        }
    }
}

fn web(http: proto::HttpSource) -> Result<(Source, Access), SourceError> {
    let url = HttpUrl::parse(&http.url)?;
    let headers: Result<_, _> = http.headers.into_iter().map(header).collect();
    let access = Access {
        basic: http.basic.map(|basic| BasicCredentials {
            username: basic.username,
            password: Secret::new(basic.password),
        }),
        headers: headers?,
        authorities: http.authorities,
        ..Access::default()
    };
    Ok((Source::Http(url), access))
}

fn header(header: proto::Header) -> Result<Header, SourceError> {
    let proto::Header { name, value } = header;
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(SourceError::HeaderName(name));
    }
    if HeaderValue::from_str(&value).is_err() {
        return Err(SourceError::HeaderValue(name));
    }
    Ok(Header {
        name,
        value: Secret::new(value),
    })
}

/// The object, and how its store is reached.
pub(in crate::server) fn object(
    object: proto::StoredObject,
) -> Result<(ObjectLocation, Access), SourceError> {
    let proto::StoredObject {
        bucket,
        key,
        endpoint,
        region,
        path_style,
        credentials,
        authorities,
    } = object;
    if bucket.is_empty() || key.is_empty() {
        return Err(SourceError::Object);
    }
    let signing = match credentials.ok_or(SourceError::Unsigned)? {
        Credentials::DefaultChain(_) => Signing::DefaultChain,
        Credentials::Anonymous(_) => Signing::Anonymous,
        Credentials::Keys(keys) => Signing::Keys {
            access_key_id: keys.access_key_id,
            secret_access_key: Secret::new(keys.secret_access_key),
            session_token: keys.session_token.map(Secret::new),
        },
    };
    let location = ObjectLocation {
        bucket,
        key,
        endpoint: endpoint.as_deref().map(HttpUrl::parse).transpose()?,
        region,
        path_style,
    };
    let access = Access {
        signing,
        authorities,
        ..Access::default()
    };
    Ok((location, access))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind) -> Result<(Source, Access), SourceError> {
        source(Some(proto::Source { kind: Some(kind) }))
    }

    fn web_with(name: &str, value: &str) -> Kind {
        Kind::Http(proto::HttpSource {
            url: "https://h/i?sig=1".into(),
            basic: Some(proto::BasicCredentials {
                username: "reader".into(),
                password: "s3cret".into(),
            }),
            headers: vec![proto::Header {
                name: name.into(),
                value: value.into(),
            }],
            authorities: Some("PEM".into()),
        })
    }

    fn object(credentials: Option<Credentials>) -> proto::StoredObject {
        proto::StoredObject {
            bucket: "images".into(),
            key: "a/b.qcow2".into(),
            endpoint: Some("http://10.0.0.9:9000".into()),
            region: None,
            path_style: true,
            credentials,
            authorities: None,
        }
    }

    #[test]
    fn a_web_server_is_one_thing_and_its_access_another() {
        let (source, access) = read(web_with("X-Token", "s3cret")).unwrap();
        assert_eq!(source.to_string(), "https://h/i?...");
        assert!(!serde_json::to_string(&source).unwrap().contains("s3cret"));
        assert_eq!(access.basic.unwrap().password.reveal(), "s3cret");
        assert_eq!(access.headers[0].value.reveal(), "s3cret");
        assert_eq!(access.authorities.as_deref(), Some("PEM"));
    }

    #[test]
    fn every_way_to_sign_is_understood() {
        let keys = proto::AccessKeys {
            access_key_id: "id".into(),
            secret_access_key: "s3cret".into(),
            session_token: None,
        };
        let (source, access) =
            read(Kind::ObjectStore(object(Some(Credentials::Keys(keys))))).unwrap();
        assert_eq!(source.to_string(), "s3://images/a/b.qcow2");
        assert!(!serde_json::to_string(&source).unwrap().contains("s3cret"));
        assert!(!access.is_plain());
        let chain = Credentials::DefaultChain(proto::DefaultChain {});
        let (_, access) = read(Kind::ObjectStore(object(Some(chain)))).unwrap();
        assert!(access.is_plain(), "nothing that a restart could lose");
        let open = Credentials::Anonymous(proto::Anonymous {});
        let (_, access) = read(Kind::ObjectStore(object(Some(open)))).unwrap();
        assert_eq!(access.signing, Signing::Anonymous);
    }

    #[test]
    fn what_is_wrong_is_named_without_the_value() {
        let nameless = proto::StoredObject {
            key: String::new(),
            ..object(None)
        };
        for (kind, said) in [
            (web_with("X Token", "s3cret"), "no name of a header"),
            (web_with("X-Token", "s3cret\r\nHost: x"), "header X-Token"),
            (Kind::ObjectStore(object(None)), "how to sign"),
            (Kind::ObjectStore(nameless), "no object"),
        ] {
            let failure = Failure::from(read(kind).unwrap_err());
            assert!(failure.message.contains(said), "{failure:?}");
            assert!(!failure.message.contains("s3cret"), "{failure:?}");
        }
    }
}
