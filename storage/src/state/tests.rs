//! What components become, and what the whole is by them.

use proptest::prelude::*;

use super::*;
use crate::stage::{STAGES, named};

const TARGET: Version = Version::new(1, 20, 6);

fn aim() -> Aim {
    Aim {
        version: TARGET,
        upgrading: false,
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn judged(verdict: Verdict) -> Turn {
    Turn::Judged(Judgement {
        verdict,
        reason: "Reason",
        message: "why".into(),
    })
}

fn operator() -> &'static Stage {
    named("rook-operator").unwrap()
}

/// A component after these verdicts, one every second.
fn after(verdicts: &[Verdict]) -> StorageComponent {
    let mut component = None;
    for (second, verdict) in verdicts.iter().enumerate() {
        let turn = judged(*verdict);
        let now = at(i64::try_from(second).unwrap());
        component = Some(step(operator(), component.as_ref(), &turn, aim(), now));
    }
    component.unwrap()
}

#[test]
fn a_component_that_comes_up_has_time_and_one_that_was_up_has_none() {
    assert_eq!(
        after(&[Verdict::Unhealthy]).state,
        ComponentState::Progressing
    );
    let up = after(&[Verdict::Unhealthy, Verdict::Healthy]);
    assert_eq!(up.state, ComponentState::Ready);
    assert_eq!(up.version.as_deref(), Some("1.20.6"));
    let down = after(&[Verdict::Healthy, Verdict::Unhealthy]);
    assert_eq!(down.state, ComponentState::Failed);
    assert_eq!(down.message.as_deref(), Some("why"));
    let again = after(&[Verdict::Healthy, Verdict::Unhealthy, Verdict::Warned]);
    assert_eq!(again.state, ComponentState::Warning);
    let changing = after(&[Verdict::Healthy, Verdict::Changing]);
    assert_eq!(changing.state, ComponentState::Progressing);
    assert_eq!(after(&[Verdict::Hopeless]).state, ComponentState::Failed);
}

#[test]
fn what_takes_too_long_has_failed_until_it_is_well() {
    let limit = i64::try_from(operator().limit.as_secs()).unwrap();
    let turn = judged(Verdict::Changing);
    let first = step(operator(), None, &turn, aim(), at(0));
    let in_time = step(operator(), Some(&first), &turn, aim(), at(limit));
    assert_eq!(in_time.state, ComponentState::Progressing);
    assert_eq!(in_time.since, first.since);
    let late = step(operator(), Some(&in_time), &turn, aim(), at(limit + 1));
    assert_eq!(late.state, ComponentState::Failed);
    let message = late.message.clone().unwrap();
    assert_eq!(message, "not done within 5 minutes: why");
    let still = step(operator(), Some(&late), &turn, aim(), at(limit + 2));
    assert_eq!(still, late);
    let well = step(
        operator(),
        Some(&still),
        &judged(Verdict::Healthy),
        aim(),
        at(limit + 3),
    );
    assert_eq!(well.state, ComponentState::Ready);
}

#[test]
fn parts_may_be_missing_while_a_change_is_taken_up() {
    use Verdict::{Changing, Healthy, Lacking, Unhealthy};
    assert_eq!(after(&[Healthy, Lacking]).state, ComponentState::Failed);
    let taking_up = after(&[Healthy, Changing, Lacking]);
    assert_eq!(taking_up.state, ComponentState::Progressing);
    let broken = after(&[Healthy, Changing, Unhealthy]);
    assert_eq!(broken.state, ComponentState::Failed);
    let well = after(&[Healthy]);
    let upgrading = Aim {
        upgrading: true,
        ..aim()
    };
    let turn = judged(Lacking);
    let next = step(operator(), Some(&well), &turn, upgrading, at(9));
    assert_eq!(next.state, ComponentState::Progressing);
}

#[test]
fn an_upgrade_has_its_own_limit() {
    let old = step(
        operator(),
        None,
        &judged(Verdict::Healthy),
        Aim {
            version: Version::new(1, 19, 10),
            upgrading: false,
        },
        at(0),
    );
    let turn = judged(Verdict::Unhealthy);
    let under_way = step(operator(), Some(&old), &turn, aim(), at(1));
    assert_eq!(under_way.state, ComponentState::Progressing);
    assert_eq!(under_way.version.as_deref(), Some("1.19.10"));
    let limit = i64::try_from(operator().upgrade_limit.as_secs()).unwrap();
    let in_time = step(operator(), Some(&under_way), &turn, aim(), at(limit));
    assert_eq!(in_time.state, ComponentState::Progressing);
    let late = step(operator(), Some(&in_time), &turn, aim(), at(limit + 2));
    assert_eq!(late.state, ComponentState::Failed);
}

#[test]
fn the_same_look_writes_nothing_new() {
    let first = after(&[Verdict::Healthy]);
    let again = step(
        operator(),
        Some(&first),
        &judged(Verdict::Healthy),
        aim(),
        at(99),
    );
    assert_eq!(first, again);
}

fn all(states: &[ComponentState]) -> Vec<StorageComponent> {
    STAGES
        .iter()
        .zip(states)
        .map(|(stage, state)| StorageComponent {
            name: stage.name.into(),
            state: *state,
            reason: Some("Reason".into()),
            message: Some("why".into()),
            since: None,
            version: state.is_healthy().then(|| TARGET.to_string()),
        })
        .collect()
}

fn state_of(components: &[StorageComponent]) -> StorageState {
    whole(components, &[], &|_| Some(TARGET), None).state
}

#[test]
fn the_whole_is_its_worst_component() {
    use ComponentState::{Failed, Progressing, Ready, Waiting, Warning};
    assert_eq!(state_of(&all(&[Ready, Ready])), StorageState::Ok);
    assert_eq!(state_of(&all(&[Ready, Warning])), StorageState::Warning);
    assert_eq!(state_of(&all(&[Ready, Waiting])), StorageState::Installing);
    assert_eq!(
        state_of(&all(&[Progressing, Waiting])),
        StorageState::Installing
    );
    assert_eq!(
        state_of(&all(&[Progressing, Failed, Ready])),
        StorageState::Error
    );
    assert_eq!(state_of(&[]), StorageState::Installing);
    let components = all(&[Ready, Failed]);
    let whole = whole(&components, &[], &|_| Some(TARGET), None);
    assert_eq!(whole.ready, "1/2");
    assert_eq!(whole.message, "snapshot-controller: why");
}

#[test]
fn another_version_is_an_upgrade() {
    use ComponentState::{Failed, Progressing, Ready};
    let mut components = all(&[Ready, Progressing]);
    components[1].version = Some("1.19.10".into());
    assert_eq!(state_of(&components), StorageState::Upgrading);
    components[1].state = Failed;
    assert_eq!(state_of(&components), StorageState::Error);
}

#[test]
fn what_cannot_be_done_is_an_error_and_a_deletion_is_one_thing() {
    let components = all(&[ComponentState::Ready]);
    let problem = |waiting| Problem {
        reason: "DowngradeRefused",
        message: "no".into(),
        waiting,
    };
    let with = |waiting| whole(&components, &[problem(waiting)], &|_| Some(TARGET), None);
    assert_eq!(with(false).state, StorageState::Error);
    assert_eq!(with(true).state, StorageState::Installing);
    let deleting = problem(true);
    let whole = whole(
        &components,
        &[problem(false)],
        &|_| Some(TARGET),
        Some(&deleting),
    );
    assert_eq!(whole.state, StorageState::Deleting);
}

#[test]
fn conditions_follow() {
    use ComponentState::{Failed, Ready};
    use hypercloud_api::conditions::ConditionStatus::{False, True};
    let of = |states: &[ComponentState]| {
        let components = all(states);
        let whole = whole(&components, &[], &|_| Some(TARGET), None);
        conditions(&components, &whole).map(|update| (update.type_, update.status))
    };
    let well = of(&[Ready; 13]);
    assert_eq!(
        well,
        [
            ("Available", True),
            ("Progressing", False),
            ("Degraded", False),
            ("Upgradeable", True)
        ]
    );
    // The toolbox is no reason not to be available.
    let mut states = [Ready; 13];
    states[10] = Failed;
    assert_eq!(
        of(&states),
        [
            ("Available", True),
            ("Progressing", False),
            ("Degraded", True),
            ("Upgradeable", False)
        ]
    );
    states[6] = Failed;
    assert_eq!(of(&states)[0], ("Available", False));
    assert_eq!(of(&[Ready])[0], ("Available", False));
}

fn verdicts() -> impl Strategy<Value = Verdict> {
    prop::sample::select(vec![
        Verdict::Healthy,
        Verdict::Warned,
        Verdict::Changing,
        Verdict::Lacking,
        Verdict::Unhealthy,
        Verdict::Hopeless,
    ])
}

proptest! {
    /// Whatever the past: healthy now is what was judged healthy now.
    #[test]
    fn a_component_is_what_it_was_judged_last(
        history in prop::collection::vec((verdicts(), 0i64..4000), 1..30),
    ) {
        let mut component: Option<StorageComponent> = None;
        let mut now = 0;
        for (verdict, wait) in history {
            now += wait;
            let next = step(operator(), component.as_ref(), &judged(verdict), aim(), at(now));
            let healthy = verdict <= Verdict::Warned;
            prop_assert_eq!(next.state.is_healthy(), healthy);
            // The version is never forgotten.
            if let Some(before) = &component {
                prop_assert!(before.version.is_none() || next.version.is_some());
                if before.state == ComponentState::Failed {
                    prop_assert!(next.state == ComponentState::Failed || healthy);
                }
            }
            if verdict == Verdict::Unhealthy && next.version.is_some() {
                prop_assert_eq!(next.state, ComponentState::Failed);
            }
            component = Some(next);
        }
    }

    /// The whole is OK only if every component is ready.
    #[test]
    fn ok_is_everything(
        states in prop::collection::vec(prop::sample::select(vec![
            ComponentState::Waiting, ComponentState::Progressing, ComponentState::Ready,
            ComponentState::Warning, ComponentState::Failed,
        ]), 0..13),
    ) {
        let state = state_of(&all(&states));
        let all_ready = !states.is_empty() && states.iter().all(|s| *s == ComponentState::Ready);
        prop_assert_eq!(state == StorageState::Ok, all_ready);
        let failed = states.contains(&ComponentState::Failed);
        prop_assert_eq!(state == StorageState::Error, failed);
    }
}
