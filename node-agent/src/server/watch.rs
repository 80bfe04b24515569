//! A board as a stream of changes.

use futures::Stream;
use futures::stream::unfold;
use hypercloud_proto::agent::v1 as proto;
use proto::watch_jobs_response::Event;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::convert;
use crate::job::board::{Board, Change};

/// Every job, the marker, then every change; ends when `draining` does.
pub(super) fn stream(
    board: &Board,
    draining: CancellationToken,
) -> impl Stream<Item = Result<proto::WatchJobsResponse, Status>> + Send + 'static {
    let looks = unfold((board.watch(), true), move |(mut watcher, first)| {
        let draining = draining.clone();
        async move {
            let changes = tokio::select! {
                changes = watcher.next() => changes,
                () = draining.cancelled() => return None,
            };
            let marker = first.then_some(Event::Synced(proto::Synced {}));
            let events: Vec<_> = changes
                .into_iter()
                .map(event)
                .chain(marker)
                .map(Ok)
                .collect();
            Some((futures::stream::iter(events), (watcher, false)))
        }
    });
    futures::StreamExt::map(
        futures::StreamExt::flatten(looks),
        |event: Result<Event, Status>| {
            event.map(|event| proto::WatchJobsResponse { event: Some(event) })
        },
    )
}

fn event(change: Change) -> Event {
    match change {
        Change::Changed(status) => Event::Changed(convert::job(status)),
        Change::Removed(id) => Event::Removed(id.into()),
    }
}
