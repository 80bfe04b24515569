//! What Jobs come to, over time.

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn job(name: &str, task: Task, created: i64, state: JobState) -> JobSeen {
    JobSeen {
        name: name.into(),
        uid: name.into(),
        task,
        created: at(created),
        state,
        failed_pods: 0,
        fresh: 20,
    }
}

fn complete(second: i64) -> JobState {
    JobState::Complete(at(second))
}

fn names<'a>(jobs: &[&'a JobSeen]) -> Vec<&'a str> {
    jobs.iter().map(|job| job.name.as_str()).collect()
}

#[test]
fn ceph_is_asked_once_at_a_time() {
    let none = course(&[], at(0));
    assert!(none.ask && none.answer.is_none());
    let jobs = [job("1", Task::Look, 0, JobState::Running)];
    let running = course(&jobs, at(5));
    assert!(!running.ask && running.asking.is_some());
}

#[test]
fn an_answer_holds_while_the_next_is_waited_for() {
    let first = job("1", Task::Look, 0, complete(2));
    let jobs = [first.clone()];
    let fresh = course(&jobs, at(10));
    assert_eq!((fresh.answer, fresh.ask), (Some(&first), false));
    assert!(course(&jobs, at(30)).ask);
    let jobs = [first.clone(), job("2", Task::Look, 30, JobState::Running)];
    let both = course(&jobs, at(31));
    assert_eq!((both.answer, both.ask), (Some(&first), false));
    let jobs = [first, job("2", Task::Look, 30, complete(32))];
    let newer = course(&jobs, at(33));
    assert_eq!(newer.answer.unwrap().name, "2");
    assert_eq!(names(&newer.done), ["1"]);
}

#[test]
fn ceph_is_asked_more_seldom_while_nothing_is_done() {
    let mut look = job("1", Task::Look, 0, complete(2));
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let jobs = [look.clone()];
        look.fresh = course(&jobs, at(3)).fresh;
        pauses.push(look.fresh);
    }
    assert_eq!(pauses, [30, 45, 67, 100, 150, 225, 300, 300, 300]);
    let jobs = [look.clone()];
    assert!(!course(&jobs, at(290)).ask && course(&jobs, at(310)).ask);
    // Once something was done, it is soon again.
    let jobs = [look, job("out", Task::Out(3), 3, complete(5))];
    assert!(course(&jobs, at(6)).ask);
    assert_eq!(course(&jobs, at(6)).fresh, 20);
}

#[test]
fn an_answer_from_before_an_act_does_not_hold() {
    let out = job("out", Task::Out(3), 3, complete(5));
    let jobs = [job("1", Task::Look, 0, complete(2)), out.clone()];
    let stale = course(&jobs, at(6));
    assert!(stale.answer.is_none() && stale.ask && stale.done.is_empty());
    // Nor one that was asked for meanwhile.
    let jobs = [job("1", Task::Look, 4, JobState::Running), out.clone()];
    assert!(course(&jobs, at(6)).ask);
    let jobs = [job("1", Task::Look, 6, complete(8)), out];
    assert!(course(&jobs, at(9)).answer.is_some());
    assert!(course(&jobs, at(9)).done.is_empty());
    assert_eq!(names(&course(&jobs, at(40)).done), ["out"]);
}

#[test]
fn a_question_that_failed_is_asked_again_after_a_while() {
    let failed = JobState::Failed(at(10), "DeadlineExceeded".into());
    let jobs = [
        job("1", Task::Look, 0, complete(2)),
        job("2", Task::Look, 5, failed),
    ];
    let soon = course(&jobs, at(12));
    assert!(!soon.ask && soon.answer.is_none());
    assert_eq!(soon.failed.unwrap().name, "2");
    assert!(course(&jobs, at(26)).ask);
}

#[test]
fn a_clock_that_is_wrong_keeps_nothing_from_going_on() {
    let jobs = [job("1", Task::Look, 1000, complete(1002))];
    let ahead = course(&jobs, at(0));
    assert!(ahead.ask && ahead.answer.is_some());
}

#[test]
fn a_task_is_done_once_and_again_only_after_a_while() {
    assert_eq!(next(Task::Out(3), &[], at(0)), Next::Make);
    // Of another OSD, and a question.
    let others = [
        job("other", Task::Out(4), 0, JobState::Running),
        job("look", Task::Look, 0, JobState::Running),
    ];
    assert_eq!(next(Task::Out(3), &others, at(0)), Next::Make);
    let running = [job("out", Task::Out(3), 0, JobState::Running)];
    assert_eq!(next(Task::Out(3), &running, at(500)), Next::Wait);
    let done = [job("out", Task::Out(3), 0, complete(2))];
    assert_eq!(next(Task::Out(3), &done, at(10)), Next::Wait);
    assert_eq!(
        next(Task::Out(3), &done, at(40)),
        Next::Clear(vec![&done[0]])
    );
    let failed = JobState::Failed(at(2), "BackoffLimitExceeded".into());
    let failed = [job("purge", Task::Purge(3), 0, failed)];
    assert_eq!(next(Task::Purge(3), &failed, at(100)), Next::Wait);
    let cleared = Next::Clear(vec![&failed[0]]);
    assert_eq!(next(Task::Purge(3), &failed, at(400)), cleared);
}

#[test]
fn what_was_begun_is_ended_before_the_contrary_is() {
    let jobs = [job("purge", Task::Purge(3), 0, JobState::Running)];
    assert_eq!(next(Task::In(3), &jobs, at(1)), Next::Clear(vec![&jobs[0]]));
    let jobs = [job("out", Task::Out(3), 0, complete(1))];
    assert_eq!(next(Task::In(3), &jobs, at(2)), Next::Make);
}

#[test]
fn a_job_is_read_from_its_conditions() {
    let read = |status: serde_json::Value| {
        let job = serde_json::json!({
            "metadata": {"name": "j", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {LABEL_TASK: "out", LABEL_OSD: "3"}},
            "status": status});
        JobSeen::read(&serde_json::from_value(job).unwrap()).unwrap()
    };
    let ended = |type_: &str| {
        let condition = serde_json::json!({"type": type_, "status": "True", "reason": "R",
            "lastTransitionTime": "2026-01-01T00:01:00Z"});
        read(serde_json::json!({"failed": 2, "conditions": [condition]}))
    };
    assert_eq!(read(serde_json::json!({})).state, JobState::Running);
    assert!(matches!(ended("Complete").state, JobState::Complete(_)));
    let failed = ended("Failed");
    assert!(matches!(&failed.state, JobState::Failed(_, reason) if reason == "R"));
    assert_eq!((failed.failed_pods, failed.task), (2, Task::Out(3)));
    // It has failed, but not ended.
    assert_eq!(ended("FailureTarget").state, JobState::Running);
}
