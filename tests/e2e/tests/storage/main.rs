//! The platform's storage, from `kubectl apply` to its removal, on a real API
//! server with the real manifests. Rook, Ceph and CDI are simulated, since
//! their images cannot run here; what they are told to be like is in the tests.
//!
//! There is one storage in a cluster, so the tests run one after another, in
//! the order of the table below, and hand the installation on. Words choose
//! tests by parts of their names; a test brings about what it needs where the
//! one before did not run. What fails is explained and cleared away.

mod cdi;
mod changes;
mod chaos;
mod deletion;
mod drift;
mod install;
mod kills;
mod mirrors;
mod object_store;
mod refusal;
mod traps;
mod upgrade;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::storage::ground::Ground;
use futures::FutureExt;
use futures::future::LocalBoxFuture;

type Test = for<'a> fn(&'a Ground) -> LocalBoxFuture<'a, anyhow::Result<()>>;

macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$((
            concat!(stringify!($module), "::", stringify!($name)),
            |ground| $module::$name(ground).boxed_local(),
        )),*]
    };
}

/// Every test, in the order in which they run.
const TESTS: &[(&str, Test)] = tests![
    refusal::what_the_nodes_do_not_have_is_refused,
    refusal::the_trust_of_the_api_server_is_kept,
    install::every_stage_comes_in_its_order,
    refusal::what_a_change_cannot_bring_is_refused,
    refusal::without_a_coordinator_nothing_slips_through,
    traps::what_fails_after_ready_shows_and_passes,
    traps::a_warning_is_what_the_policy_says,
    traps::somebody_elses_hands_in_rook_are_seen,
    traps::a_change_that_rook_has_not_taken_up_is_not_ok,
    drift::what_others_change_is_put_right_and_what_they_add_stays,
    cdi::comes_and_goes_as_it_is_asked_for,
    changes::devices_nodes_and_copies_are_added,
    changes::a_device_goes_only_when_that_is_said,
    object_store::images_that_name_none_come_from_the_bucket,
    chaos::it_is_never_ok_for_long_while_something_is_not,
    traps::an_operator_that_hangs_is_noticed,
    deletion::without_the_confirmation_everything_stays,
    deletion::with_it_everything_goes_once_nothing_is_used,
    deletion::what_was_there_before_is_not_taken,
    mirrors::a_byte_that_is_wrong_stops_it_until_it_is_mended,
    mirrors::what_rook_calls_ready_is_not_enough,
    upgrade::goes_in_order_while_ceph_is_healthy,
    upgrade::there_is_no_way_back,
    kills::a_coordinator_killed_at_fifty_points_converges,
];

/// The words that choose tests; what belongs to another harness is skipped.
fn words() -> Vec<String> {
    let mut words = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--test-threads" | "--format" | "--color" | "-Z" => drop(arguments.next()),
            flag if flag.starts_with('-') => {}
            _ => words.push(argument),
        }
    }
    words
}

fn main() -> anyhow::Result<ExitCode> {
    let words = words();
    let is_chosen = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let chosen: Vec<&(&str, Test)> = TESTS.iter().filter(|(name, _)| is_chosen(name)).collect();
    if std::env::args().any(|argument| argument == "--list") {
        for (name, _) in chosen {
            println!("{name}: test");
        }
        return Ok(ExitCode::SUCCESS);
    }
    if chosen.is_empty() {
        println!("no test of the storage is called so");
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let failed = runtime.block_on(run(&chosen))?;
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// How long a test may take, whatever it waits for.
const LIMIT: Duration = Duration::from_secs(900);

async fn run(chosen: &[&(&'static str, Test)]) -> anyhow::Result<Vec<&'static str>> {
    let Some(ground) = Ground::make().await? else {
        return Ok(Vec::new());
    };
    let mut failed = Vec::new();
    for (name, test) in chosen {
        println!("test {name}");
        let begun = Instant::now();
        let limit = LIMIT + chaos::duration();
        let caught = AssertUnwindSafe(test(&ground)).catch_unwind();
        let ended = tokio::time::timeout(limit, caught).await;
        let seconds = begun.elapsed().as_secs();
        match ended {
            Ok(Ok(Ok(()))) => println!("test {name} ... ok ({seconds} s)"),
            other => {
                let why = match other {
                    Ok(Ok(Err(error))) => format!("{error:#}"),
                    // What was compared was printed already.
                    Ok(_) => "it panicked".to_owned(),
                    Err(_) => format!("not within {limit:?}"),
                };
                println!("test {name} ... FAILED after {seconds} s: {why}");
                failed.push(*name);
                ground.explain().await;
                ground.clear().await?;
            }
        }
    }
    if std::env::var_os("HCS_E2E_KEEP").is_none() {
        ground.clear().await?;
    }
    Ok(failed)
}
