//! What is written down of a copy. Pure.

use hypercloud_api::CopyStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use crate::agents::Job;

/// A copy whose job was chosen at `now`.
pub fn chosen(job_id: &str, node: &str, holder_uid: &str, now: Timestamp) -> CopyStatus {
    CopyStatus {
        job_id: job_id.to_owned(),
        node_name: node.to_owned(),
        holder_uid: Some(holder_uid.to_owned()),
        start_time: Some(Time(now)),
        ..CopyStatus::default()
    }
}

/// Takes over how far `job` is.
pub fn progress(copy: &mut CopyStatus, job: &Job) {
    let progress = &job.progress;
    if progress.total > 0 {
        copy.bytes_total = Some(signed(progress.total));
    }
    copy.bytes_done = signed(progress.done);
    copy.bytes_written = signed(progress.written);
}

/// Takes over the end of `job`, seen at `now`.
pub fn completed(copy: &mut CopyStatus, job: &Job, now: Timestamp) {
    progress(copy, job);
    copy.completion_time.get_or_insert(Time(now));
}

/// Share that is done, for people.
pub fn percent(job: &Job) -> String {
    format!("{}%", job.progress.percent())
}

/// Bytes as the API counts them.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Progress;

    #[test]
    fn an_end_is_dated_once() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut copy = chosen("uid-0", "n1", "pod", at(10));
        let job = Job {
            progress: Progress {
                total: 1000,
                done: 1000,
                received: 1000,
                written: 30,
            },
            ..Job::default()
        };
        completed(&mut copy, &job, at(20));
        completed(&mut copy, &job, at(30));
        assert_eq!(copy.completion_time, Some(Time(at(20))));
        assert_eq!(copy.start_time, Some(Time(at(10))));
        let counted = (copy.bytes_total, copy.bytes_done, copy.bytes_written);
        assert_eq!(counted, (Some(1000), 1000, 30));
        assert_eq!(percent(&job), "100%");
    }
}
