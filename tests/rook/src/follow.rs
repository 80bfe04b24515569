//! The orders, as they change.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio::sync::watch;

use crate::orders::Orders;
use crate::{NAMESPACE, ORDERS};

/// The namespace may be made long after the program was started.
#[derive(Clone, Copy, Debug)]
pub struct EverySecond;

impl Iterator for EverySecond {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_secs(1))
    }
}

impl Backoff for EverySecond {
    fn reset(&mut self) {}
}

/// Follows the orders for as long as the program runs.
pub fn orders(client: &Client) -> watch::Receiver<Orders> {
    let (sender, receiver) = watch::channel(Orders::default());
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    tokio::spawn(async move {
        let mut changes = Box::pin(watch_object(api, ORDERS).backoff(EverySecond));
        while let Some(change) = changes.next().await {
            let Ok(found) = change else { continue };
            let data = found.and_then(|map| map.data).unwrap_or_default();
            match Orders::read(&data) {
                Ok(orders) => {
                    let is_new = sender.send_if_modified(|former| {
                        let is_new = *former != orders;
                        *former = orders;
                        is_new
                    });
                    if is_new {
                        println!("orders: {data:?}");
                    }
                }
                Err(mistake) => eprintln!("the orders stay as they were: {mistake}"),
            }
        }
    });
    receiver
}

/// The orders as they are now.
pub async fn once(client: &Client) -> Orders {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let found = api.get_opt(ORDERS).await.ok().flatten();
    let data = found.and_then(|map| map.data).unwrap_or_default();
    Orders::read(&data).unwrap_or_default()
}
