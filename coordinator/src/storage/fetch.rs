//! Manifests: fetched from where the specification says, checked, and kept for
//! as long as they are what it asks for.
//!
//! - [`web`] (network required): a file from a web server; [`connection`] is
//!   how one is reached.
//! - [`config_map`] (client required): files out of ConfigMaps, and the
//!   certificates in one.
//! - [`folder`]: a file of a folder that is mounted.
//! - [`retry`] (no client): when what failed is tried again.
//!
//! Invariant: nothing is kept, and nothing given to anybody, whose checksum
//! was not compared with the one that is expected now: what was fetched from
//! another mirror, or by another checksum, is fetched anew.

mod config_map;
mod connection;
mod folder;
mod retry;
mod trouble;
mod web;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use hyper_util::client::proxy::matcher::Matcher;
use hypercloud_api::{HyperCloudStorageSpec, ManifestMirror};
use hypercloud_storage::manifest::source::{Place, Wanted};
use hypercloud_storage::manifest::{self, Files, ManifestError};
use kube::Client;
use serde_json::Value;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use self::config_map::Maps;
use self::web::Web;

/// Files that are fetched at a time.
const AT_A_TIME: usize = 4;

/// How files are fetched.
#[derive(Clone, Debug)]
pub struct Terms {
    /// How long a server may take until it can be asked.
    pub connect: Duration,
    /// How long one file may take.
    pub whole: Duration,
    /// The shortest time until what failed is tried again.
    pub again: Duration,
    /// Proxies between the coordinator and web servers.
    pub proxies: Arc<Matcher>,
}

impl Terms {
    /// Those of the coordinator; proxies are what the environment says.
    pub fn from_environment() -> Self {
        Self {
            connect: Duration::from_secs(30),
            whole: Duration::from_secs(60),
            again: Duration::from_secs(5),
            proxies: Arc::new(Matcher::from_env()),
        }
    }
}

/// The files that were fetched. A clone is the same library.
#[derive(Clone)]
pub struct Library {
    client: Client,
    namespace: Arc<str>,
    terms: Terms,
    shelf: Arc<Mutex<Shelf>>,
    /// One fetches at a time, so that nothing is fetched twice.
    turn: Arc<Mutex<()>>,
    /// The mirror that was last asked for.
    mirror: Arc<watch::Sender<Option<ManifestMirror>>>,
}

type Shelf = BTreeMap<Wanted, Entry>;

/// A file, as it came of what was asked.
struct Entry {
    asked: Asked,
    outcome: Outcome,
}

/// What decides whether a file is still the one that is meant.
#[derive(Clone, PartialEq, Eq)]
struct Asked {
    mirror: Option<ManifestMirror>,
    expected: Option<String>,
}

impl Asked {
    fn of(wanted: &Wanted, spec: &HyperCloudStorageSpec) -> Self {
        Self {
            mirror: spec.manifests.clone(),
            expected: wanted.expected(spec).map(str::to_owned),
        }
    }
}

enum Outcome {
    Read(Arc<Vec<Value>>),
    Failed {
        error: ManifestError,
        failures: u32,
        again: Instant,
    },
}

impl Outcome {
    fn result(&self) -> Result<Arc<Vec<Value>>, ManifestError> {
        match self {
            Self::Read(objects) => Ok(objects.clone()),
            Self::Failed { error, .. } => Err(error.clone()),
        }
    }
}

impl Library {
    /// A library with nothing in it. ConfigMaps are those of `namespace`, the
    /// coordinator's.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self::with(client, namespace, Terms::from_environment())
    }

    /// One that fetches on these terms.
    pub fn with(client: Client, namespace: &str, terms: Terms) -> Self {
        Self {
            client,
            namespace: namespace.into(),
            terms,
            shelf: Arc::default(),
            turn: Arc::default(),
            mirror: Arc::new(watch::Sender::new(None)),
        }
    }

    /// The files that are at hand for a specification, and what became of
    /// those that could not be had. What another specification asked for goes.
    pub async fn files(&self, spec: &HyperCloudStorageSpec) -> Files {
        self.ask(spec);
        let mut shelf = self.shelf.lock().await;
        shelf.retain(|wanted, entry| entry.asked == Asked::of(wanted, spec));
        shelf
            .iter()
            .map(|(wanted, entry)| (wanted.clone(), entry.outcome.result()))
            .collect()
    }

    fn ask(&self, spec: &HyperCloudStorageSpec) {
        self.mirror.send_if_modified(|mirror| {
            let is_another = *mirror != spec.manifests;
            mirror.clone_from(&spec.manifests);
            is_another
        });
    }

    /// Drops every file.
    pub async fn clear(&self) {
        self.shelf.lock().await.clear();
    }

    /// Fetches those files that are not at hand, as far as it is time for
    /// those that failed. Says whether anything is other than it was.
    ///
    /// Ends as soon as another mirror is asked for: nobody who mends a
    /// specification is to wait for a server that does not answer.
    pub async fn fetch(&self, spec: &HyperCloudStorageSpec, wanted: &[Wanted]) -> bool {
        let _turn = self.turn.lock().await;
        self.ask(spec);
        let mut asked = self.mirror.subscribe();
        tokio::select! {
            changed = self.fetch_due(spec, wanted) => changed,
            _ = asked.wait_for(|mirror| *mirror != spec.manifests) => true,
        }
    }

    async fn fetch_due(&self, spec: &HyperCloudStorageSpec, wanted: &[Wanted]) -> bool {
        let due = self.due(spec, wanted).await;
        if due.is_empty() {
            return false;
        }
        let source = Source::open(self, spec, &due).await;
        let changes = futures::stream::iter(due)
            .map(|wanted| {
                let source = &source;
                async move {
                    let outcome = self.obtain(source, &wanted, spec).await;
                    self.keep(wanted, spec, outcome).await
                }
            })
            .buffer_unordered(AT_A_TIME);
        let changes: Vec<Change> = changes.collect().await;
        if changes.contains(&Change::Read) {
            self.hurry().await;
        }
        changes.iter().any(|change| *change != Change::None)
    }

    async fn due(&self, spec: &HyperCloudStorageSpec, wanted: &[Wanted]) -> Vec<Wanted> {
        let shelf = self.shelf.lock().await;
        let now = Instant::now();
        let is_due = |wanted: &&Wanted| match shelf.get(*wanted) {
            Some(entry) if entry.asked == Asked::of(wanted, spec) => match &entry.outcome {
                Outcome::Read(_) => false,
                Outcome::Failed { again, .. } => *again <= now,
            },
            _ => true,
        };
        let mut due: Vec<Wanted> = wanted.iter().filter(is_due).cloned().collect();
        due.sort();
        due.dedup();
        due
    }

    async fn obtain(
        &self,
        source: &Source,
        wanted: &Wanted,
        spec: &HyperCloudStorageSpec,
    ) -> Result<Vec<Value>, ManifestError> {
        let expected = wanted.expected(spec).map(str::to_owned);
        if expected.is_none() {
            let path = wanted.path();
            return Err(ManifestError::NoChecksum { path });
        }
        let bytes = source.bytes(wanted, spec, &self.terms).await?;
        let path = wanted.path();
        let wanted = wanted.clone();
        // A megabyte of YAML takes its time.
        let read = move || manifest::read(&wanted, &bytes, expected.as_deref());
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|panic| {
            let why = panic.to_string();
            Err(ManifestError::NoManifest { path, why })
        })
    }

    async fn keep(
        &self,
        wanted: Wanted,
        spec: &HyperCloudStorageSpec,
        outcome: Result<Vec<Value>, ManifestError>,
    ) -> Change {
        let asked = Asked::of(&wanted, spec);
        let mut shelf = self.shelf.lock().await;
        let former = shelf.remove(&wanted).filter(|entry| entry.asked == asked);
        let (outcome, change) = match outcome {
            Ok(objects) => {
                tracing::info!(file = wanted.path(), "fetched a manifest");
                // Of two releases only the one that is asked for is needed.
                shelf.retain(|other, _| {
                    (other.project, &other.file) != (wanted.project, &wanted.file)
                });
                (Outcome::Read(Arc::new(objects)), Change::Read)
            }
            Err(error) => {
                let (failures, same) = match former.map(|entry| entry.outcome) {
                    Some(Outcome::Failed {
                        error: last,
                        failures,
                        ..
                    }) => (failures.saturating_add(1), last == error),
                    _ => (1, false),
                };
                let path = wanted.path();
                let reason = error.reason();
                tracing::warn!(file = path, reason, %error, "cannot fetch a manifest");
                let delays = retry::delays(&error, spec.manifests.as_ref(), self.terms.again);
                let again = Instant::now() + delays.delay(&path, failures);
                let failed = Outcome::Failed {
                    error,
                    failures,
                    again,
                };
                let change = if same { Change::None } else { Change::Failed };
                (failed, change)
            }
        };
        shelf.insert(wanted, Entry { asked, outcome });
        change
    }

    /// A place that answers again is asked for everything.
    async fn hurry(&self) {
        let now = Instant::now();
        for entry in self.shelf.lock().await.values_mut() {
            if let Outcome::Failed {
                error: ManifestError::Unreachable { .. },
                again,
                ..
            } = &mut entry.outcome
            {
                *again = now;
            }
        }
    }
}

/// What became of a file, beside what was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Read,
    Failed,
    None,
}

/// Where the files of one specification are.
enum Source {
    Web(Result<Web, trouble::Authorities>),
    Maps(Maps),
    Folder,
}

impl Source {
    /// Prepares it: web servers are believed by certificates that are read
    /// now, and ConfigMaps are read one after the other, once.
    async fn open(library: &Library, spec: &HyperCloudStorageSpec, due: &[Wanted]) -> Self {
        let Library {
            client,
            namespace,
            terms,
            ..
        } = library;
        let mirror = spec.manifests.as_ref();
        if let Some(names) = mirror.and_then(|mirror| mirror.config_maps.as_deref()) {
            let maps = config_map::read(client, namespace, names, due, mirror);
            return Self::Maps(maps.await);
        }
        if mirror.is_some_and(|mirror| mirror.http.is_none() && mirror.folder.is_some()) {
            return Self::Folder;
        }
        let ca = mirror
            .and_then(|mirror| mirror.http.as_ref())
            .and_then(|http| http.ca_config_map.as_ref());
        let given = match ca {
            Some(ca) => config_map::authorities(client, namespace, ca)
                .await
                .map(Some),
            None => Ok(None),
        };
        Self::Web(given.and_then(|given| Web::new(given.as_ref(), terms.clone())))
    }

    async fn bytes(
        &self,
        wanted: &Wanted,
        spec: &HyperCloudStorageSpec,
        terms: &Terms,
    ) -> Result<Vec<u8>, ManifestError> {
        let path = wanted.path();
        let is_mirror = spec.manifests.is_some();
        match (self, wanted.place(spec.manifests.as_ref())) {
            (Self::Web(Ok(web)), Place::Address(address)) => {
                let got = web.get(&address).await;
                got.map_err(|trouble| trouble.of(path, web::shown(&address), is_mirror))
            }
            (Self::Web(Err(authorities)), _) => Err(authorities.of(path)),
            (Self::Maps(maps), _) => maps.file(wanted),
            (_, Place::File(file)) => {
                let got = folder::read(&file, terms.whole).await;
                got.map_err(|trouble| trouble.of(path, file, is_mirror))
            }
            (_, Place::Address(place)) => Err(ManifestError::Missing { path, place }),
            (_, Place::ConfigMaps { key: place, .. }) => {
                Err(ManifestError::Missing { path, place })
            }
        }
    }
}
