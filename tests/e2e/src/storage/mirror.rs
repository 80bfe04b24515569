//! The manifests of Rook, the snapshot controller and CDI as a mirror of a
//! cluster without internet: a web server, or ConfigMaps.

use std::collections::HashMap;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path as Route, State};
use axum::http::{Response, StatusCode};
use flate2::Compression;
use flate2::write::GzEncoder;
use hypercloud_storage::stage::{STAGES, Source, Stage};
use hypercloud_storage::version::Target;
use hypercloud_storage::version::table::Project;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;

use crate::cluster::{Cluster, SYSTEM_NAMESPACE};

/// The label of the ConfigMaps.
const LABEL: &str = "hypercloud-tests=mirror";
/// What of the files is put into one ConfigMap, packed.
const ROOM: usize = 700 << 10;

/// A web server with the manifests, on an address that pods reach. It ends
/// with this value.
pub struct Mirror {
    folder: PathBuf,
    address: SocketAddr,
    spoilt: Spoilt,
    asked: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

type Spoilt = Arc<Mutex<HashMap<String, Vec<u8>>>>;

#[derive(Clone)]
struct Served {
    folder: PathBuf,
    spoilt: Spoilt,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Mirror {
    /// Serves the manifests of `folder`.
    pub async fn start(address: IpAddr, folder: PathBuf) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        let served = Served {
            folder: folder.clone(),
            spoilt: Spoilt::default(),
            asked: Arc::default(),
        };
        let (spoilt, asked) = (Arc::clone(&served.spoilt), Arc::clone(&served.asked));
        let router = Router::new()
            .route("/{*path}", axum::routing::get(serve))
            .with_state(served);
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the mirror ended: {error}");
            }
        });
        Ok(Self {
            folder,
            address,
            spoilt,
            asked,
            task,
        })
    }

    /// `spec.manifests` of a storage that is installed from here.
    #[must_use]
    pub fn spec(&self) -> Value {
        json!({"http": {"url": format!("http://{}/", self.address)}})
    }

    /// Serves a file with another byte from now on.
    pub fn spoil(&self, path: &str) -> anyhow::Result<()> {
        let mut bytes = read(&self.folder, path)?;
        let last = bytes.last_mut().context("an empty file")?;
        *last ^= 1;
        let mut spoilt = self.spoilt.lock().ok().context("a request died")?;
        spoilt.insert(path.to_owned(), bytes);
        Ok(())
    }

    /// Serves every file as it is.
    pub fn mend(&self) -> anyhow::Result<()> {
        self.spoilt.lock().ok().context("a request died")?.clear();
        Ok(())
    }

    /// How many files were asked for so far.
    pub fn asked(&self) -> anyhow::Result<usize> {
        Ok(self.asked.lock().ok().context("a request died")?.len())
    }

    /// SHA-256 of CDI's file, which its user says.
    pub fn sha256_of_cdi(&self) -> anyhow::Result<String> {
        let bytes = read(&self.folder, CDI)?;
        let digest = Sha256::digest(bytes);
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Puts the files of a release into ConfigMaps beside the coordinator, as
    /// many as it takes; their names.
    pub async fn into_config_maps(
        &self,
        cluster: &Cluster,
        target: &Target,
    ) -> anyhow::Result<Vec<String>> {
        forget_config_maps(cluster).await?;
        let mut maps: Vec<HashMap<String, ByteString>> = vec![HashMap::new()];
        let mut room = ROOM;
        for path in paths(target) {
            let packed = pack(&read(&self.folder, &path)?)?;
            if packed.len() > room {
                maps.push(HashMap::new());
                room = ROOM;
            }
            room = room.saturating_sub(packed.len());
            let key = format!("{}.gz", path.replace('/', "_"));
            if let Some(map) = maps.last_mut() {
                map.insert(key, ByteString(packed));
            }
        }
        let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
        let mut names = Vec::new();
        for (number, map) in maps.into_iter().enumerate() {
            let name = format!("manifests-{number}");
            let (label, value) = LABEL.split_once('=').unwrap_or((LABEL, ""));
            let map = serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {label: value}},
                "binaryData": map,
            }))?;
            api.create(&PostParams::default(), &map).await?;
            names.push(name);
        }
        Ok(names)
    }
}

/// Takes the ConfigMaps away.
pub async fn forget_config_maps(cluster: &Cluster) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), SYSTEM_NAMESPACE);
    let which = ListParams::default().labels(LABEL);
    api.delete_collection(&DeleteParams::default(), &which)
        .await?;
    Ok(())
}

/// The files of every stage but CDI's, by their paths in a mirror.
fn paths(target: &Target) -> Vec<String> {
    let sources = STAGES.iter().flat_map(|stage| stage.sources);
    let of_file = |source: &Source| match source {
        Source::File(Project::Cdi, _) | Source::Rendered(_) => None,
        Source::File(project, file) => Some(project.path(Stage::release(*project, target), file)),
    };
    sources.filter_map(of_file).collect()
}

fn pack(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

const CDI: &str = "cdi/v1.66.0/cdi-operator.yaml";

/// A file of the mirror. CDI's release file cannot be had byte for byte: what
/// was derived stands in for it.
fn read(folder: &Path, path: &str) -> anyhow::Result<Vec<u8>> {
    let path = match path {
        CDI => "cdi/derived-cdi-operator-v1.66.0.yaml",
        path => path,
    };
    anyhow::ensure!(!path.contains(".."), "{path} leads out of the mirror");
    std::fs::read(folder.join(path)).with_context(|| path.to_owned())
}

async fn serve(State(served): State<Served>, Route(path): Route<String>) -> Response<Body> {
    if let Ok(mut asked) = served.asked.lock() {
        asked.push(path.clone());
    }
    let spoilt = served.spoilt.lock().ok();
    let spoilt = spoilt.and_then(|spoilt| spoilt.get(&path).cloned());
    let bytes = match spoilt {
        Some(bytes) => Ok(bytes),
        None => read(&served.folder, &path),
    };
    match bytes {
        Ok(bytes) => Response::new(Body::from(bytes)),
        Err(error) => {
            let mut response = Response::new(Body::from(format!("{error:#}\n")));
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.task.abort();
    }
}
