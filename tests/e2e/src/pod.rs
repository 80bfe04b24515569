//! A pod as KubeVirt would make it for a disk: user 107, no rights, no
//! network but its own, one claim. It runs once. On a claim that is the
//! coordinator's alone it is made by the coordinator's account.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, LogParams, PostParams};
use serde_json::json;

use crate::cluster::Scope;
use crate::wait::{Seen, until, when};

/// How long a pod may take to go.
const GOING: Duration = Duration::from_secs(60);

/// A pod that runs once.
pub struct Once<'a> {
    /// Begins its name.
    pub name: &'a str,
    /// The container's image.
    pub image: String,
    /// The command with its arguments.
    pub command: Vec<String>,
    /// The claim.
    pub claim: &'a str,
    /// The claim's volume mode. A `Block` volume is the device
    /// `/dev/volume`, a `Filesystem` is mounted at `/volume`.
    pub mode: &'a str,
    /// How long it may take, from its making to its end.
    pub limit: Duration,
}

/// How a pod ended.
pub struct End {
    /// What it printed.
    pub logs: String,
    /// Exit status and times of its container.
    pub state: ContainerStateTerminated,
}

impl Once<'_> {
    /// Runs the pod to its end, whatever that is, and takes it away.
    pub async fn run(&self, scope: &Scope) -> anyhow::Result<End> {
        let api = scope.api::<Pod>();
        let pod = serde_json::from_value(self.pod())?;
        let maker = scope.pods_on(self.claim).await?;
        let made = maker.create(&PostParams::default(), &pod).await?;
        let name = made.name_any();
        let what = format!("{name} has ended");
        let state = until(&what, self.limit, || async {
            let status = api.get(&name).await?.status.unwrap_or_default();
            let containers = status.container_statuses.unwrap_or_default();
            let state = containers.into_iter().next().and_then(|first| first.state);
            Ok(match state {
                Some(ContainerState {
                    terminated: Some(end),
                    ..
                }) => Seen::Done(end),
                state => Seen::NotYet(format!("{state:?} {:?}", status.conditions)),
            })
        })
        .await?;
        let logs = api.logs(&name, &LogParams::default()).await?;
        api.delete(&name, &DeleteParams::default().grace_period(0))
            .await?;
        until("the pod is gone", GOING, || async {
            let found = api.get_opt(&name).await?;
            Ok(when(found.is_none(), "still there"))
        })
        .await?;
        Ok(End { logs, state })
    }

    /// Starts the pod, waits until it runs, and leaves it; its name.
    pub async fn keep(&self, scope: &Scope) -> anyhow::Result<String> {
        let pod = serde_json::from_value(self.pod())?;
        let maker = scope.pods_on(self.claim).await?;
        let name = maker.create(&PostParams::default(), &pod).await?.name_any();
        let api = scope.api::<Pod>();
        let what = format!("{name} runs");
        until(&what, self.limit, || async {
            let status = api.get(&name).await?.status.unwrap_or_default();
            let runs = status.phase.as_deref() == Some("Running");
            Ok(when(runs, (status.phase, status.conditions)))
        })
        .await?;
        Ok(name)
    }

    fn pod(&self) -> serde_json::Value {
        let (key, place) = match self.mode {
            "Block" => (
                "volumeDevices",
                json!([{"name": "volume", "devicePath": "/dev/volume"}]),
            ),
            _ => (
                "volumeMounts",
                json!([{"name": "volume", "mountPath": "/volume"}]),
            ),
        };
        json!({
            "metadata": {"generateName": format!("{}-", self.name)},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": 107, "runAsGroup": 107, "fsGroup": 107,
                    "fsGroupChangePolicy": "OnRootMismatch",
                    "seccompProfile": {"type": "RuntimeDefault"}
                },
                "containers": [{
                    "name": self.name,
                    "image": self.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": self.command,
                    key: place,
                    "securityContext": {
                        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}
                    }
                }],
                "volumes": [{"name": "volume", "persistentVolumeClaim": {"claimName": self.claim}}]
            }
        })
    }
}
