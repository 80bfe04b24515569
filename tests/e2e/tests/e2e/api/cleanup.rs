//! The rules of a `NodeDeviceCleanup`.

use super::*;
use hypercloud_api::NodeDeviceCleanup;
use kube::Api;

/// Asks the server to judge a cleanup without keeping it.
async fn judged(api: &Api<DynamicObject>, spec: Value) -> anyhow::Result<Option<String>> {
    let resource = kube::core::ApiResource::erase::<NodeDeviceCleanup>(&());
    let object = DynamicObject::new("candidate", &resource).data(json!({"spec": spec}));
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match api.create(&parameters, &object).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.message)),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test]
async fn nothing_is_destroyed_but_in_so_many_words() -> anyhow::Result<()> {
    let client = Cluster::connect().await?.client;
    let resource = kube::core::ApiResource::erase::<NodeDeviceCleanup>(&());
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let meant = "yes-really-destroy-data";
    for (spec, said) in [
        (
            json!({"nodeName": "n", "device": "/dev/sdb", "confirmation": meant}),
            None,
        ),
        (
            json!({"nodeName": "n", "device": "/dev/sdb"}),
            Some("confirmation: Required"),
        ),
        (
            json!({"nodeName": "n", "device": "/dev/sdb", "confirmation": "yes"}),
            Some("cleaning destroys everything on the device"),
        ),
        (
            json!({"nodeName": "", "device": "/dev/sdb", "confirmation": meant}),
            Some("spec.nodeName"),
        ),
        (
            json!({"nodeName": "n", "device": "", "confirmation": meant}),
            Some("spec.device"),
        ),
    ] {
        let answer = judged(&api, spec.clone()).await?;
        match (said, &answer) {
            (None, None) => {}
            (Some(said), Some(answer)) if answer.contains(said) => {}
            _ => anyhow::bail!("{spec}: expected {said:?}, the server answered {answer:?}"),
        }
    }
    Ok(())
}
