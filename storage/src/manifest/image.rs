//! Images from other registries.

use hypercloud_api::RegistryMirror;
use serde_json::Value;

/// Kinds whose texts are of people and schemas, never of images.
const WITHOUT_IMAGES: [&str; 3] = ["CustomResourceDefinition", "ClusterRole", "Role"];

/// An image's name with its registry: what names none is Docker's.
#[must_use]
pub fn canonical(image: &str) -> String {
    let (first, rest) = match image.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (image, None),
    };
    let is_host = first.contains('.') || first.contains(':') || first == "localhost";
    match rest {
        Some(_) if is_host => image.to_owned(),
        Some(_) => format!("docker.io/{image}"),
        None => format!("docker.io/library/{image}"),
    }
}

/// The image by the registries that stand in for others. The longest `from`
/// is taken; an image that none fits is as it was.
#[must_use]
pub fn rewritten(image: &str, registries: &[RegistryMirror]) -> String {
    let whole = canonical(image);
    let fits = |from: &str| {
        whole
            .strip_prefix(from)
            .filter(|rest| rest.starts_with(['/', ':', '@']))
    };
    registries
        .iter()
        .filter_map(|mirror| Some((mirror, fits(&mirror.from)?)))
        .max_by_key(|(mirror, _)| mirror.from.len())
        .map_or_else(
            || image.to_owned(),
            |(mirror, rest)| format!("{}{rest}", mirror.to),
        )
}

/// Rewrites every image of an object: those of containers and of a
/// CephCluster, those that operators read from their environment, and those
/// that ConfigMaps name.
pub fn rewrite(object: &mut Value, registries: &[RegistryMirror]) {
    if registries.is_empty() {
        return;
    }
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    if WITHOUT_IMAGES.contains(&kind.as_str()) {
        return;
    }
    if kind == "ConfigMap" {
        if let Some(Value::Object(data)) = object.get_mut("data") {
            for value in data.values_mut() {
                change(value, registries);
            }
        }
        return;
    }
    visit(object, registries);
}

fn visit(value: &mut Value, registries: &[RegistryMirror]) {
    match value {
        Value::Object(map) => {
            let names_image = map
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(|name| name.ends_with("_IMAGE"));
            for (key, inner) in map.iter_mut() {
                if key == "image" || (key == "value" && names_image) {
                    change(inner, registries);
                } else {
                    visit(inner, registries);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|inner| visit(inner, registries)),
        _ => {}
    }
}

/// Changes a text that is an image's name.
fn change(value: &mut Value, registries: &[RegistryMirror]) {
    if let Value::String(text) = value
        && is_image(text)
    {
        *text = rewritten(text, registries);
    }
}

/// Whether a text can be an image with a tag or digest.
fn is_image(text: &str) -> bool {
    let name = text.rsplit('/').next().unwrap_or_default();
    text.contains('/')
        && (name.contains(':') || name.contains('@'))
        && !text.contains("://")
        && !text.contains(char::is_whitespace)
}

/// Every image that an object names.
#[must_use]
pub fn images(object: &Value) -> Vec<String> {
    let mut marked = object.clone();
    let mark = ["docker.io", "quay.io", "registry.k8s.io", "gcr.io"].map(|from| RegistryMirror {
        from: from.to_owned(),
        to: format!("mirrored.invalid/{from}"),
    });
    rewrite(&mut marked, &mark);
    let mut found = Vec::new();
    collect(&marked, &mut found);
    found
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.values().for_each(|inner| collect(inner, found)),
        Value::Array(list) => list.iter().for_each(|inner| collect(inner, found)),
        Value::String(text) => {
            found.extend(text.strip_prefix("mirrored.invalid/").map(str::to_owned));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn mirrors(pairs: &[(&str, &str)]) -> Vec<RegistryMirror> {
        pairs
            .iter()
            .map(|(from, to)| RegistryMirror {
                from: (*from).to_owned(),
                to: (*to).to_owned(),
            })
            .collect()
    }

    #[test]
    fn the_longest_beginning_counts_and_boundaries_are_kept() {
        let mirrors = mirrors(&[
            ("quay.io", "r.example:5000/quay"),
            ("quay.io/ceph", "c.example"),
            ("docker.io", "r.example:5000/hub"),
        ]);
        for (image, expected) in [
            ("quay.io/ceph/ceph:v20", "c.example/ceph:v20"),
            (
                "quay.io/cephcsi/cephcsi:v3",
                "r.example:5000/quay/cephcsi/cephcsi:v3",
            ),
            ("rook/ceph:v1.20.6", "r.example:5000/hub/rook/ceph:v1.20.6"),
            ("busybox:1", "r.example:5000/hub/library/busybox:1"),
            ("quay.io.example/a:1", "quay.io.example/a:1"),
            ("gcr.io/a/b@sha256:0", "gcr.io/a/b@sha256:0"),
        ] {
            assert_eq!(rewritten(image, &mirrors), expected);
        }
    }

    #[test]
    fn images_are_found_wherever_they_are_named() {
        let mirrors = mirrors(&[("quay.io", "r.example")]);
        let mut pod = json!({"kind": "Deployment", "spec": {"template": {"spec": {"containers": [
            {"image": "quay.io/a/b:1", "args": ["quay.io/a/b:1"], "env": [
                {"name": "SOME_IMAGE", "value": "quay.io/c/d:2"},
                {"name": "OTHER", "value": "quay.io/c/d:2"}]}]}}}});
        rewrite(&mut pod, &mirrors);
        let container = &pod["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "r.example/a/b:1");
        assert_eq!(container["args"][0], "quay.io/a/b:1");
        assert_eq!(container["env"][0]["value"], "r.example/c/d:2");
        assert_eq!(container["env"][1]["value"], "quay.io/c/d:2");

        let mut map = json!({"kind": "ConfigMap", "data": {
            "plugin": "quay.io/cephcsi/cephcsi:v3", "words": "see quay.io/a/b:1", "n": "1"}});
        rewrite(&mut map, &mirrors);
        assert_eq!(map["data"]["plugin"], "r.example/cephcsi/cephcsi:v3");
        assert_eq!(map["data"]["words"], "see quay.io/a/b:1");
    }

    proptest! {
        #[test]
        fn what_no_mirror_fits_stays(image in "[a-z]{1,6}\\.io/[a-z]{1,6}/[a-z]{1,6}:[0-9]{1,3}") {
            let mirrors = mirrors(&[("other.example", "r.example")]);
            prop_assert_eq!(rewritten(&image, &mirrors), image);
        }

        #[test]
        fn tag_and_name_survive(host in "[a-z]{1,6}\\.io", path in "[a-z]{1,6}/[a-z]{1,6}",
                                tag in "[a-z0-9.]{1,8}") {
            let mirrors = mirrors(&[(&host, "r.example:5000/x")]);
            let image = format!("{host}/{path}:{tag}");
            let expected = format!("r.example:5000/x/{path}:{tag}");
            prop_assert_eq!(rewritten(&image, &mirrors), expected);
        }
    }
}
