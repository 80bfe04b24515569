//! Which versions are installed, and from which one may go to which.

use hypercloud_api::{CdiInstallation, StorageVersions};
use proptest::prelude::*;

use super::*;

fn spec(rook: Option<&str>, ceph: Option<&str>) -> HyperCloudStorageSpec {
    HyperCloudStorageSpec {
        versions: Some(StorageVersions {
            rook: rook.map(str::to_owned),
            ceph: ceph.map(str::to_owned),
        }),
        ..HyperCloudStorageSpec::default()
    }
}

fn running(rook: &str, ceph: &str) -> Running {
    Running {
        rook: rook.parse().ok(),
        ceph: ceph.parse().ok(),
    }
}

const OLD: (&str, &str) = ("1.19.10", "19.2.6");
const NEW: (&str, &str) = ("1.20.6", "20.2.4");

#[test]
fn the_newest_is_installed_and_what_runs_stays() {
    let none = HyperCloudStorageSpec::default();
    let fresh = target(&none, Running::default(), None).unwrap();
    assert_eq!(
        (
            fresh.rook.to_string().as_str(),
            fresh.ceph.to_string().as_str()
        ),
        NEW
    );
    let kept = target(&none, running(OLD.0, OLD.1), None).unwrap();
    assert_eq!(
        (
            kept.rook.to_string().as_str(),
            kept.ceph.to_string().as_str()
        ),
        OLD
    );
}

#[test]
fn ceph_stays_with_a_rook_that_takes_it_unless_it_is_named() {
    let ceph = |spec, running| target(&spec, running, None).unwrap().ceph;
    let rook_only = || spec(Some(NEW.0), None);
    // The newest is first in the list, and nobody asked for it.
    for rook in [OLD.0, NEW.0] {
        let kept = ceph(rook_only(), running(rook, OLD.1));
        assert_eq!(kept, Version::new(19, 2, 6));
    }
    let both = spec(Some(NEW.0), Some(NEW.1));
    assert_eq!(ceph(both, running(OLD.0, OLD.1)), Version::new(20, 2, 4));
    // One that the release does not take goes to the first that it does.
    for unlisted in [running(OLD.0, "19.2.5"), Running::default()] {
        assert_eq!(ceph(rook_only(), unlisted), Version::new(20, 2, 4));
    }
    let refused = target(&spec(Some(OLD.0), Some(NEW.1)), Running::default(), None).unwrap_err();
    assert_eq!(refused.reason(), "VersionUnsupported");
    assert_eq!(
        refused.to_string(),
        "Ceph 20.2.4 does not go with Rook 1.19.10: set versions.ceph to one of 19.2.6"
    );
}

#[test]
fn downgrades_are_refused() {
    let back = target(&spec(Some(OLD.0), None), running(NEW.0, NEW.1), None).unwrap_err();
    assert_eq!(back.reason(), "DowngradeRefused");
    let ceph = spec(Some(NEW.0), Some(OLD.1));
    let back = target(&ceph, running(NEW.0, NEW.1), None).unwrap_err();
    assert_eq!(back.reason(), "DowngradeRefused");
}

#[test]
fn a_release_is_not_skipped() {
    let far = Running {
        rook: Some(Version::new(1, 18, 4)),
        ceph: None,
    };
    let refused = target(&spec(Some(NEW.0), None), far, None).unwrap_err();
    assert_eq!(refused.reason(), "UpgradeTooFar");
}

#[test]
fn kubernetes_has_to_fit_what_is_new() {
    let too_old = KubernetesVersion::parse("1", "30+");
    let refused = target(&spec(Some(NEW.0), None), Running::default(), too_old).unwrap_err();
    assert_eq!(refused.reason(), "KubernetesUnsupported");
    assert!(refused.to_string().contains("1.31 to 1.36"), "{refused}");
    assert!(target(&spec(Some(OLD.0), None), Running::default(), too_old).is_ok());
    // What runs is left alone under a newer Kubernetes.
    let newer = KubernetesVersion::parse("1", "40");
    assert!(target(&spec(Some(NEW.0), None), running(NEW.0, NEW.1), newer).is_ok());
}

#[test]
fn only_the_cdi_that_is_known_is_installed() {
    let mut spec = HyperCloudStorageSpec {
        cdi: Some(CdiInstallation::default()),
        ..HyperCloudStorageSpec::default()
    };
    assert_eq!(
        target(&spec, Running::default(), None).unwrap().cdi,
        table::CDI
    );
    if let Some(cdi) = &mut spec.cdi {
        cdi.version = Some("1.0.0".into());
    }
    let refused = target(&spec, Running::default(), None).unwrap_err();
    assert_eq!(refused.reason(), "VersionUnsupported");
}

#[test]
fn what_is_no_version_is_refused() {
    for text in [
        "",
        "1",
        "1.2",
        "1.2.3.4",
        "1.2.x",
        "1.-2.3",
        "1.2.99999999999",
        "vv1.2.3",
    ] {
        assert!(text.parse::<Version>().is_err(), "{text}");
    }
    assert_eq!("v1.20.6".parse(), Ok(Version::new(1, 20, 6)));
}

proptest! {
    #[test]
    fn versions_are_read_back(major in 0u32.., minor in 0u32.., patch in 0u32..) {
        let version = Version::new(major, minor, patch);
        prop_assert_eq!(version.to_string().parse(), Ok(version));
    }

    #[test]
    fn no_target_is_older_than_what_runs(
        rook in (1u32..2, 17u32..22, 0u32..12), ceph in (17u32..22, 2u32..3, 0u32..8),
        asked in prop::option::of(prop::sample::select(vec!["1.19.10", "1.20.6"])),
        asked_ceph in prop::option::of(prop::sample::select(vec!["19.2.6", "20.2.4"])),
    ) {
        let running = Running {
            rook: Some(Version::new(rook.0, rook.1, rook.2)),
            ceph: Some(Version::new(ceph.0, ceph.1, ceph.2)),
        };
        if let Ok(target) = target(&spec(asked, asked_ceph), running, None) {
            prop_assert!(Some(target.rook) >= running.rook);
            prop_assert!(Some(target.ceph) >= running.ceph);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        let _ = text.parse::<Version>();
    }
}
