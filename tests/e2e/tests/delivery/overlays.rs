//! The kustomize overlays.

use crate::programs::{Objects, container, kustomized, manifests, object, variable};

/// Every overlay.
pub const OVERLAYS: [&str; 3] = ["default", "storage", "air-gapped"];

/// An overlay's objects.
pub fn overlay(name: &str) -> anyhow::Result<Objects> {
    kustomized(&manifests().join("overlays").join(name))
}

/// The images of coordinator and agents.
fn images(objects: &Objects) -> anyhow::Result<[String; 2]> {
    let coordinator = container(objects, "Deployment", "coordinator")?;
    let agent = container(objects, "DaemonSet", "node-agent")?;
    let [image, agent] = [coordinator, agent].map(|one| one["image"].as_str().unwrap_or_default());
    let holder = variable(coordinator, "HOLDER_IMAGE");
    assert_eq!(holder, Some(agent), "holders run the agents' image");
    Ok([image.to_owned(), agent.to_owned()])
}

#[test]
fn images_are_those_of_the_release() -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    for name in ["default", "storage"] {
        let expected =
            ["coordinator", "node-agent"].map(|one| format!("hypercloud-storage/{one}:{version}"));
        assert_eq!(images(&overlay(name)?)?, expected, "{name}");
    }
    let expected = ["coordinator", "node-agent"]
        .map(|one| format!("registry.example:5000/hypercloud-storage/{one}:{version}"));
    assert_eq!(images(&overlay("air-gapped")?)?, expected);
    Ok(())
}

#[test]
fn storages_come_with_the_system() -> anyhow::Result<()> {
    for name in ["storage", "air-gapped"] {
        let objects = overlay(name)?;
        let storage = object(&objects, "HyperCloudStorage", "hypercloud")?;
        let nodes = storage["spec"]["storage"]["nodes"].as_array().map(Vec::len);
        assert_eq!(nodes, Some(3), "{name}");
        // The patch adds to what the other overlay says.
        let mirrored = !storage["spec"]["registries"].is_null();
        assert_eq!(mirrored, name == "air-gapped");
    }
    assert!(object(&overlay("default")?, "HyperCloudStorage", "hypercloud").is_err());
    Ok(())
}
