//! Devices as a stream of changes.

use futures::stream::unfold;
use futures::{Stream, StreamExt as _};
use hypercloud_proto::agent::v1 as proto;
use proto::watch_devices_response::Event;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::convert;
use crate::devices::board::{Change, DeviceBoard};

/// Every device and the look at it, then every change; ends when `draining`
/// does.
pub(super) fn stream(
    board: &DeviceBoard,
    draining: CancellationToken,
) -> impl Stream<Item = Result<proto::WatchDevicesResponse, Status>> + Send + 'static {
    let looks = unfold(board.watch(), move |mut watcher| {
        let draining = draining.clone();
        async move {
            let changes = tokio::select! {
                changes = watcher.next() => changes,
                () = draining.cancelled() => return None,
            };
            Some((futures::stream::iter(changes), watcher))
        }
    });
    looks.flatten().map(|change| {
        Ok(proto::WatchDevicesResponse {
            event: Some(event(&change)),
        })
    })
}

fn event(change: &Change) -> Event {
    match change {
        Change::Changed(device) => Event::Changed(convert::device(device)),
        Change::Removed(name) => Event::Removed(name.clone()),
        Change::Look(look) => Event::Look(convert::look(look)),
    }
}
