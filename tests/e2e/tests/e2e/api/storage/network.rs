//! The network of a storage, which is settled when it is made.

use super::*;

/// A network that was said stays as it was said.
#[tokio::test]
async fn a_network_is_settled() -> anyhow::Result<()> {
    let rules = Rules::install("network").await?;
    let network = json!({"hostNetwork": true, "publicRanges": ["10.1.0.0/16"],
        "clusterRanges": ["10.2.0.0/16"], "ipFamily": "IPv6"});
    let made = rules.storage("hypercloud", spec(json!({"network": network}), json!({})));
    rules.storages.create(&PostParams::default(), &made).await?;
    for (change, said) in [
        (json!(null), Some("network.hostNetwork is settled")),
        (
            json!({"hostNetwork": null, "publicRanges": null, "clusterRanges": null}),
            Some("network.hostNetwork is settled"),
        ),
        (
            json!({"publicRanges": null}),
            Some("network.publicRanges are settled"),
        ),
        (
            json!({"publicRanges": ["10.1.0.0/16", "10.3.0.0/16"]}),
            Some("network.publicRanges are settled"),
        ),
        (
            json!({"clusterRanges": ["10.3.0.0/16"]}),
            Some("network.clusterRanges are settled"),
        ),
        (
            json!({"ipFamily": null}),
            Some("network.ipFamily is settled"),
        ),
        (json!({"publicRanges": ["10.1.0.0/16"]}), None),
        (json!({"encryption": true, "requireMsgr2": true}), None),
    ] {
        let change = json!({"storage": {"network": change}});
        let answer = rules.change(change.clone()).await?;
        check(&change, said, &answer)?;
    }
    rules.close().await
}

/// Words with nothing behind them are stored, and keep nobody from a change.
#[tokio::test]
async fn a_network_of_nothing_is_no_trap() -> anyhow::Result<()> {
    for (test, network) in [
        ("nothing", json!(null)),
        ("nobody", json!({"hostNetwork": null})),
    ] {
        let rules = Rules::install(test).await?;
        let made = rules.storage("hypercloud", spec(json!({"network": network}), json!({})));
        rules.storages.create(&PostParams::default(), &made).await?;
        for change in [
            json!({"replicas": 4}),
            json!({"network": null}),
            json!({"network": {"hostNetwork": false, "encryption": true}}),
        ] {
            let change = json!({"storage": change});
            let answer = rules.change(change.clone()).await?;
            check(&change, None, &answer)?;
        }
        rules.close().await?;
    }
    Ok(())
}
