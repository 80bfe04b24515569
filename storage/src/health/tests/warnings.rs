//! What Ceph warns of, what the policy makes of it, and what it cannot.

use hypercloud_api::WarningsPolicy;

use super::*;

#[test]
fn warnings_are_what_the_policy_makes_of_them() {
    let object = with(|o| {
        o["status"]["ceph"]["health"] = json!("HEALTH_WARN");
        o["status"]["ceph"]["details"] = json!({
            "MON_DISK_LOW": {"severity": "HEALTH_WARN", "message": "mon a is low"},
            "OSD_DOWN": {"severity": "HEALTH_WARN", "message": "1 osds down"}});
    });
    let mut policy = HealthPolicy::default();
    assert_eq!(look_at(Some(&object), &policy).verdict, Verdict::Lacking);
    policy.warnings = Some(WarningsPolicy::Tolerate);
    let judgement = look_at(Some(&object), &policy);
    assert_eq!(judgement.verdict, Verdict::Warned);
    assert!(judgement.message.contains("OSD_DOWN (1 osds down)"));
    policy.ignore = vec!["MON_DISK_LOW".into()];
    let judgement = look_at(Some(&object), &policy);
    assert!(!judgement.message.contains("MON_DISK_LOW"));
    policy.ignore.push("OSD_DOWN".into());
    assert_eq!(look_at(Some(&object), &policy).verdict, Verdict::Healthy);
    // One that names nothing is not let through by names.
    let bare = with(|o| o["status"]["ceph"]["health"] = json!("HEALTH_WARN"));
    assert_eq!(look_at(Some(&bare), &policy).verdict, Verdict::Warned);
}

/// Ceph with these warnings.
fn warning(checks: &[&str]) -> Value {
    with(|o| {
        o["status"]["ceph"]["health"] = json!("HEALTH_WARN");
        for check in checks {
            o["status"]["ceph"]["details"][check] = json!({"message": "so it is"});
        }
    })
}

#[test]
fn data_that_is_not_read_is_tolerated_by_nobody() {
    for policy in [
        HealthPolicy {
            warnings: Some(WarningsPolicy::Tolerate),
            ignore: Vec::new(),
        },
        HealthPolicy {
            warnings: None,
            ignore: vec!["PG_AVAILABILITY".into()],
        },
    ] {
        let judgement = look_at(Some(&warning(&["PG_AVAILABILITY"])), &policy);
        assert_eq!(judgement.verdict, Verdict::Lacking);
        assert!(judgement.message.contains("PG_AVAILABILITY (so it is)"));
    }
}

#[test]
fn what_takes_daemons_away_waits_for_more_than_the_policy() {
    let tolerant = HealthPolicy {
        warnings: Some(WarningsPolicy::Tolerate),
        ignore: vec!["OSD_DOWN".into()],
    };
    let gate = |object: &Value| {
        let view = View {
            object: Some(object),
            others: Vec::new(),
            serving: on(&[("a", 3)]),
            devices: 3,
            policy: &tolerant,
            now: now(),
        };
        (judge(&view).verdict, cluster::gate(&view).verdict)
    };
    for hard in ["PG_DEGRADED", "PG_DAMAGED", "OSD_NEARFULL", "SLOW_OPS"] {
        let hard = warning(&[hard, "MON_DISK_LOW"]);
        assert_eq!(gate(&hard), (Verdict::Warned, Verdict::Lacking));
    }
    let ignored = warning(&["OSD_DOWN"]);
    assert_eq!(gate(&ignored), (Verdict::Healthy, Verdict::Lacking));
    let soft = warning(&["MON_DISK_LOW"]);
    assert_eq!(gate(&soft), (Verdict::Warned, Verdict::Warned));
    assert_eq!(gate(&cluster()), (Verdict::Healthy, Verdict::Healthy));
}
