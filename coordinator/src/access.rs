//! How a source of images, or an object store that disks go to, is reached:
//! from the names in a specification, through the Secrets and ConfigMaps that
//! they name, to what an agent is asked with.
//!
//! 1. [`wanted`] (no client): what a specification names.
//! 2. [`references`] (no client): the objects that are needed.
//! 3. [`read::read`] (client required): the objects as they are.
//! 4. [`resolve`] (no client): the source, or the problem that people are to
//!    read of.
//!
//! [`rejection`] judges what did not let in.
//!
//! All of it happens just before a call to an agent, so that a Secret's
//! content is in no observation, no plan and no status, and so that every
//! call uses what the Secret says by then.

mod authorities;
pub mod read;
pub mod rejection;
mod store;
pub mod wanted;
mod web;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hypercloud_api::CaReference;
use wanted::{WantedObject, WantedPlace, WantedSource, WantedStored};

use crate::agents::source::{Source, Stored};
use crate::holder::Problem;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl Kind {
    /// The kind as Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// What people read of the operator's objects: whoever makes a resource has no
/// business with their names. No name of a Secret, as it has blanks.
pub const DEFAULT_STORE: &str = "the operator's default object store";

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whose {
    /// In the resource's namespace, and named by the resource.
    Resource,
    /// In the coordinator's namespace, and named by the operator.
    Operator,
}

/// A Secret or ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Whose it is.
    pub whose: Whose,
    /// What it is.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What a Secret or ConfigMap holds.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// Its version.
    pub version: String,
    /// Its values by key.
    pub values: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// The objects that were read; `None` for one that is not there.
pub type Objects = BTreeMap<Reference, Option<Content>>;

/// The object store that the operator set up for resources that name none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultStore {
    /// The coordinator's namespace, where its objects are.
    pub namespace: String,
    /// Address of the store; Amazon's without one.
    pub endpoint: Option<String>,
    /// Region that requests are signed for.
    pub region: Option<String>,
    /// Whether the bucket stands in the path.
    pub path_style: Option<bool>,
    /// Name of the Secret that lets in; the agent's environment without one.
    pub secret: Option<String>,
    /// Name of the ConfigMap with certificates to trust.
    pub ca_config_map: Option<String>,
    /// The claim whose bucket it is, once there is one, where the operator
    /// named no store.
    pub claim: Option<SystemClaim>,
}

/// An ObjectBucketClaim of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemClaim {
    /// Its namespace.
    pub namespace: String,
    /// Its name, and that of its ConfigMap and Secret.
    pub name: String,
}

impl SystemClaim {
    /// The ConfigMap that says where the bucket is, or the Secret that lets
    /// in there.
    pub fn reference(&self, kind: Kind) -> Reference {
        Reference {
            whose: Whose::Operator,
            kind,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// A source or an object as the agents are asked for it.
#[derive(Clone, Debug)]
pub struct Resolved<T> {
    /// The source or the object.
    pub what: T,
    /// The Secrets that let in there, as `name@version`; the operator's is
    /// called [`DEFAULT_STORE`].
    pub secrets: Vec<String>,
}

/// Where references lead.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The resource's namespace.
    pub namespace: &'a str,
    /// The store for resources that name none.
    pub store: &'a DefaultStore,
}

impl Scope<'_> {
    fn of_resource(&self, kind: Kind, name: &str) -> Reference {
        Reference {
            whose: Whose::Resource,
            kind,
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn of_system(&self, kind: Kind, name: &str) -> Reference {
        Reference {
            whose: Whose::Operator,
            kind,
            namespace: self.store.namespace.clone(),
            name: name.to_owned(),
        }
    }
}

/// The objects by which `wanted` is reached.
pub fn references(wanted: &WantedSource, scope: Scope<'_>) -> BTreeSet<Reference> {
    let mut needed = named(wanted.secret.as_deref(), wanted.ca.as_ref(), scope);
    match &wanted.place {
        WantedPlace::Http { secret_headers, .. } => needed.extend(
            secret_headers
                .iter()
                .map(|name| scope.of_resource(Kind::Secret, name)),
        ),
        WantedPlace::Object(object) => {
            needed.extend(store::references(asked(wanted, object), scope))
        }
    }
    needed
}

/// The objects by which a stored object is reached.
pub fn references_of_object(wanted: &WantedStored, scope: Scope<'_>) -> BTreeSet<Reference> {
    let mut needed = named(wanted.secret.as_deref(), wanted.ca.as_ref(), scope);
    needed.extend(store::references(wanted.as_asked(), scope));
    needed
}

/// The resource's own Secret and certificates.
fn named(secret: Option<&str>, ca: Option<&CaReference>, scope: Scope<'_>) -> BTreeSet<Reference> {
    let secret = secret.map(|name| scope.of_resource(Kind::Secret, name));
    let ca = ca.map(|ca| scope.of_resource(Kind::ConfigMap, &ca.name));
    secret.into_iter().chain(ca).collect()
}

fn asked<'a>(wanted: &'a WantedSource, object: &'a WantedObject) -> store::Asked<'a> {
    store::Asked {
        object,
        secret: wanted.secret.as_deref(),
        ca: wanted.ca.as_ref(),
    }
}

/// Whether a Secret lets in at the source, so that another one may where it
/// does not.
pub fn is_guarded(wanted: &WantedSource, scope: Scope<'_>) -> bool {
    references(wanted, scope)
        .iter()
        .any(|reference| reference.kind == Kind::Secret)
}

/// The source that `wanted` is, given what its objects hold.
pub fn resolve(
    wanted: &WantedSource,
    scope: Scope<'_>,
    objects: &Objects,
) -> Result<Resolved<Source>, Problem> {
    let source = match &wanted.place {
        WantedPlace::Http {
            url,
            headers,
            secret_headers,
        } => {
            let secrets = web::Secrets {
                login: wanted.secret.as_deref(),
                headers: secret_headers,
            };
            Source {
                place: web::place(url, headers, secrets, scope, objects)?,
                authorities: authorities::of_resource(wanted.ca.as_ref(), scope, objects)?,
            }
        }
        WantedPlace::Object(object) => store::object(asked(wanted, object), scope, objects)?.into(),
    };
    Ok(resolved(source, objects))
}

/// The stored object that `wanted` is, given what its objects hold.
pub fn resolve_object(
    wanted: &WantedStored,
    scope: Scope<'_>,
    objects: &Objects,
) -> Result<Resolved<Stored>, Problem> {
    let stored = store::object(wanted.as_asked(), scope, objects)?;
    Ok(resolved(stored, objects))
}

fn resolved<T>(what: T, objects: &Objects) -> Resolved<T> {
    let secrets = objects
        .iter()
        .filter(|(reference, _)| reference.kind == Kind::Secret)
        .filter_map(|(reference, content)| {
            let content = content.as_ref()?;
            let name = match reference.whose {
                Whose::Resource => reference.name.as_str(),
                Whose::Operator => DEFAULT_STORE,
            };
            Some(format!("{name}@{}", content.version))
        });
    Resolved {
        what,
        secrets: secrets.collect(),
    }
}

/// The content of an object that has to be there.
fn content<'a>(objects: &'a Objects, reference: &Reference) -> Result<&'a Content, Problem> {
    objects
        .get(reference)
        .and_then(Option::as_ref)
        .ok_or_else(|| {
            let kind = reference.kind.as_str();
            let Reference {
                namespace, name, ..
            } = reference;
            let message = match reference.whose {
                Whose::Resource => format!(
                    "the {kind} {name} does not exist in namespace {namespace}: create it, and the transfer goes on"
                ),
                Whose::Operator => format!(
                    "the {kind} of {DEFAULT_STORE} does not exist: have it created, and the transfer goes on"
                ),
            };
            Problem {
                reason: format!("{kind}NotFound"),
                message,
            }
        })
}

/// Something is wrong with what an object holds.
fn invalid(reference: &Reference, what: impl fmt::Display) -> Problem {
    let kind = reference.kind.as_str();
    let Reference {
        namespace, name, ..
    } = reference;
    let message = match reference.whose {
        Whose::Resource => format!(
            "the {kind} {name} in namespace {namespace} {what}: put it right, and the transfer goes on"
        ),
        Whose::Operator => format!(
            "the {kind} of {DEFAULT_STORE} {what}: have it put right, and the transfer goes on"
        ),
    };
    Problem {
        reason: format!("Invalid{kind}"),
        message,
    }
}

/// The value of a key, as text without control characters.
fn text<'a>(
    reference: &Reference,
    content: &'a Content,
    key: &str,
) -> Result<Option<&'a str>, Problem> {
    let Some(value) = content.values.get(key) else {
        return Ok(None);
    };
    match std::str::from_utf8(value) {
        Ok(text) if text.ends_with(['\n', '\r']) => Err(invalid(
            reference,
            format!("has a line break at the end of {key}, as echo writes it"),
        )),
        Ok(text) if !text.chars().any(char::is_control) => Ok(Some(text)),
        _ => Err(invalid(
            reference,
            format!("has more than plain text in {key}"),
        )),
    }
}

/// The values of the first pair of keys that is there.
fn pair<'a>(
    reference: &Reference,
    content: &'a Content,
    pairs: &[(&str, &str)],
) -> Result<(&'a str, &'a str), Problem> {
    for (first, second) in pairs {
        let found = (
            text(reference, content, first)?,
            text(reference, content, second)?,
        );
        if let (Some(first), Some(second)) = found {
            return Ok((first, second));
        }
    }
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(first, second)| format!("{first} and {second}"))
        .collect();
    Err(invalid(
        reference,
        format!("has no keys {}", pairs.join(", or ")),
    ))
}
