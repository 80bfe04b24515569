//! The Jobs as they are made.

use super::*;

fn seen() -> Seen {
    Seen::from_iter([
        json!({"apiVersion": "ceph.rook.io/v1", "kind": "CephCluster",
            "metadata": {"name": "rook-ceph", "namespace": "rook-ceph"},
            "spec": {"cephVersion": {"image": "mirror.example/ceph/ceph:v20.2.4"},
                     "network": {"provider": "host"}}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "rook-ceph-operator", "namespace": "rook-ceph"},
            "spec": {"template": {"spec": {"containers": [
                {"image": "mirror.example/rook/ceph:v1.20.6"}]}}}}),
    ])
}

fn job(task: Task) -> Value {
    Setup::of(&seen()).unwrap().job(task)
}

#[test]
fn images_are_those_that_run() {
    let image = |task| job(task)["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    assert_eq!(image(Task::Look), "mirror.example/ceph/ceph:v20.2.4");
    assert_eq!(image(Task::Purge(3)), "mirror.example/rook/ceph:v1.20.6");
    assert_eq!(Setup::of(&Seen::default()), None);
}

#[test]
fn a_job_says_what_it_does_and_is_read_again() {
    for task in [Task::Look, Task::Out(3), Task::In(3), Task::Purge(12)] {
        let job = job(task);
        let labels = &job["metadata"]["labels"];
        let osd = labels[LABEL_OSD].as_str();
        let read = Task::read(labels[LABEL_TASK].as_str().unwrap(), osd);
        assert_eq!(read, Some(task));
        let typed: k8s_openapi::api::batch::v1::Job = serde_json::from_value(job).unwrap();
        let pod = typed.spec.unwrap().template.spec.unwrap();
        assert_eq!(pod.host_network, Some(true));
        assert_eq!(pod.restart_policy.as_deref(), Some("Never"));
    }
    assert_eq!(
        job(Task::Out(3))["metadata"]["name"],
        "hypercloud-osd-3-out"
    );
    assert_eq!(Task::read("purge", Some("x")), None);
    assert_eq!(Task::read("stop", Some("3")), None);
}

#[test]
fn commands_are_given_without_a_shell() {
    let args = |task: Task, container: usize| -> Vec<String> {
        let container = &job(task)["spec"]["template"]["spec"]["containers"][container];
        serde_json::from_value(container["args"].clone()).unwrap()
    };
    assert_eq!(
        args(Task::Look, 2).join(" "),
        "--name $(ROOK_CEPH_USERNAME) --connect-timeout 30 osd safe-to-destroy all --format json"
    );
    assert!(args(Task::Out(3), 0).ends_with(&["osd".into(), "out".into(), "3".into()]));
    // Without force, so that Rook asks Ceph once more.
    assert_eq!(
        args(Task::Purge(3), 0).join(" "),
        "ceph osd remove --preserve-pvc false --force-osd-removal false --osd-ids 3"
    );
}

#[test]
fn no_key_stands_in_an_argument_or_variable() {
    for task in [Task::Look, Task::Out(1), Task::Purge(1)] {
        let job = job(task).to_string();
        assert!(!job.contains("\"key\":\"ceph-secret\",\"name\""), "{job}");
    }
}
