//! CDI's operator: what it says of its CDI, and that it holds it.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::orders::Orders;
use crate::{api, follow, probe};

/// Port of the manifest's probes.
const PORT: u16 = 8444;
const FINALIZER: &str = "operator.cdi.kubevirt.io";
/// How often it looks.
const LOOK: Duration = Duration::from_millis(500);

/// Runs for as long as the program does.
pub async fn run(client: &Client) -> anyhow::Result<()> {
    let orders = follow::orders(client);
    let probes = probe::serve(PORT, "cdi-operator".to_owned(), orders.clone());
    let work = async {
        loop {
            let now = orders.borrow().clone();
            if let Err(error) = pass(client, &now).await
                && !api::is_conflict(&error)
            {
                eprintln!("{error}");
            }
            sleep(LOOK).await;
        }
    };
    tokio::select! {
        ended = probes => ended,
        () = work => Ok(()),
    }
}

async fn pass(client: &Client, orders: &Orders) -> kube::Result<()> {
    for cdi in api::list(client, api::CDI, None, "").await? {
        if api::is_going(&cdi) {
            if orders.deletes {
                api::release(client, api::CDI, &cdi, FINALIZER).await?;
            }
            continue;
        }
        if api::hold(client, api::CDI, &cdi, FINALIZER).await? {
            continue;
        }
        let status = status(&orders.cdi);
        if cdi["status"]["phase"] == status["phase"]
            && cdi["status"]["conditions"] == status["conditions"]
        {
            continue;
        }
        let mut changed = cdi.clone();
        for (key, value) in status.as_object().into_iter().flatten() {
            changed["status"][key] = value.clone();
        }
        // Its definition has no status of its own to write to.
        api::replace(client, api::CDI, &changed).await?;
    }
    Ok(())
}

/// The status that is ordered.
fn status(ordered: &str) -> Value {
    let (phase, available, degraded) = match ordered {
        "degraded" => ("Deployed", true, true),
        "unavailable" => ("Deployed", false, false),
        "Deployed" => ("Deployed", true, false),
        other => (other, false, other == "Error"),
    };
    let condition = |type_: &str, is: bool| {
        json!({
            "type": type_, "status": if is { "True" } else { "False" },
            "reason": "Ordered", "message": format!("{ordered} as it was ordered"),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
        })
    };
    json!({
        "phase": phase,
        "operatorVersion": "v1.66.0", "targetVersion": "v1.66.0", "observedVersion": "v1.66.0",
        "conditions": [
            condition("Available", available),
            condition("Progressing", phase == "Deploying"),
            condition("Degraded", degraded),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_a_status_of_its_own() {
        let is = |ordered: &str, at: usize| status(ordered)["conditions"][at]["status"].clone();
        assert_eq!(
            (is("Deployed", 0), is("Deployed", 2)),
            (json!("True"), json!("False"))
        );
        assert_eq!(is("degraded", 2), "True");
        assert_eq!(is("unavailable", 0), "False");
        assert_eq!(status("Deploying")["phase"], "Deploying");
    }
}
