//! Turns of calls, and questions that make no sense.

use std::time::Duration;

use async_trait::async_trait;
use hypercloud_inventory::{Policy, Tree};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::Code;

use super::super::turns::TURN_LIMIT;
use super::*;
use crate::engine::{CopyOrder, ExportOrder, Exported, ImportOrder, Imported, Observer};
use crate::job::state::Progress;
use crate::source::{Access, Facts, ObjectLocation, Secret, Source};
use crate::volume::KubeletVolumes;

/// Gives no answer for addresses that end in `slow`, and another at once.
struct Sources;

#[async_trait]
impl Engine for Sources {
    async fn probe(&self, source: &Source, _: &Access) -> Result<Facts, Failure> {
        if format!("{source:?}").contains("slow") {
            std::future::pending::<()>().await;
        }
        Err(failure("NotFound"))
    }

    async fn import(
        &self,
        _: ImportOrder,
        _: Arc<dyn Observer>,
        _: CancellationToken,
    ) -> Result<Imported, Failure> {
        Err(failure("Cancelled"))
    }

    async fn copy(
        &self,
        _: CopyOrder,
        _: Arc<dyn Observer>,
        _: CancellationToken,
    ) -> Result<Progress, Failure> {
        Err(failure("Cancelled"))
    }

    async fn export(
        &self,
        _: ExportOrder,
        _: Arc<dyn Observer>,
        _: CancellationToken,
    ) -> Result<Exported, Failure> {
        Err(failure("Cancelled"))
    }

    async fn discard_upload(
        &self,
        object: &ObjectLocation,
        _: &Access,
        _: &str,
    ) -> Result<(), Failure> {
        if object.key == "slow" {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn presign(
        &self,
        object: &ObjectLocation,
        _: &Access,
        valid: Duration,
    ) -> Result<Secret, Failure> {
        if object.key == "slow" {
            std::future::pending::<()>().await;
        }
        Ok(Secret::new(format!("{object}?{}", valid.as_secs())))
    }
}

fn failure(reason: &str) -> Failure {
    Failure {
        reason: reason.into(),
        message: String::new(),
        retryable: false,
    }
}

fn agent() -> (TempDir, AgentService) {
    let place = tempfile::tempdir().unwrap();
    let volumes = Arc::new(KubeletVolumes::new(place.path(), Duration::ZERO));
    let engine: Arc<dyn Engine> = Arc::new(Sources);
    let (jobs, _) = Jobs::open(&place.path().join("jobs"), engine.clone(), volumes, 1).unwrap();
    let node = Node::this("node-1".into()).unwrap();
    let devices = Devices::start(
        Tree::recorded(place.path()),
        Policy::default(),
        place.path(),
    )
    .unwrap();
    (place, AgentService::new(node, jobs, engine, devices))
}

/// What a look ends with, and when.
type Look = JoinHandle<(Result<String, Code>, Duration)>;

/// Looks at a source.
fn look(agent: &AgentService, path: &str) -> Look {
    let kind = proto::source::Kind::Http(proto::HttpSource {
        url: format!("http://images.test/{path}"),
        ..proto::HttpSource::default()
    });
    let source = Some(proto::Source { kind: Some(kind) });
    let (agent, begun) = (agent.clone(), Instant::now());
    tokio::spawn(async move {
        let answer = agent.probe(proto::ProbeSourceRequest { source }).await;
        let told = answer
            .map(|probed| probed.unwrap_err().reason)
            .map_err(|status| status.code());
        (told, begun.elapsed())
    })
}

#[tokio::test(start_paused = true)]
async fn slow_sources_cost_those_behind_them_their_time_and_no_more() {
    let (_place, agent) = agent();
    let slow: Vec<_> = (0..PROBES).map(|_| look(&agent, "slow")).collect();
    tokio::task::yield_now().await;
    let quick = look(&agent, "quick");
    // Its limit begins with its turn, so it is no source that is late.
    let later = look(&agent, "slow");
    for look in slow {
        let (told, after) = look.await.unwrap();
        assert_eq!(
            (told.unwrap().as_str(), after.as_secs()),
            ("SourceTimeout", 60)
        );
    }
    let (told, after) = quick.await.unwrap();
    assert_eq!((told.unwrap().as_str(), after.as_secs()), ("NotFound", 60));
    let (told, after) = later.await.unwrap();
    assert_eq!(
        (told.unwrap().as_str(), after.as_secs()),
        ("SourceTimeout", 120)
    );
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_is_asked_to_come_again() {
    let (_place, agent) = agent();
    let slow: Vec<_> = (0..2 * PROBES).map(|_| look(&agent, "slow")).collect();
    tokio::task::yield_now().await;
    let (told, after) = look(&agent, "quick").await.unwrap();
    assert_eq!((told, after), (Err(Code::ResourceExhausted), TURN_LIMIT));
    drop(slow);
}

fn stored(key: &str) -> Option<proto::StoredObject> {
    let chain = proto::stored_object::Credentials::DefaultChain(proto::DefaultChain {});
    Some(proto::StoredObject {
        bucket: "images".into(),
        key: key.into(),
        credentials: Some(chain),
        ..proto::StoredObject::default()
    })
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_is_told_of_and_holds_nobody_up_for_good() {
    let (_place, agent) = agent();
    let presign = |key: &str| {
        let request = Request::new(proto::PresignObjectRequest {
            object: stored(key),
            expires_after_seconds: 60,
        });
        let agent = agent.clone();
        tokio::spawn(async move { agent.presign_object(request).await })
    };
    let slow: Vec<_> = (0..OBJECT_CALLS).map(|_| presign("slow")).collect();
    tokio::task::yield_now().await;
    let quick = presign("disk");
    let discard = Request::new(proto::DiscardUploadRequest {
        object: stored("slow"),
        upload_id: "u".into(),
    });
    let discard = tokio::spawn({
        let agent = agent.clone();
        async move { agent.discard_upload(discard).await }
    });
    for call in slow {
        let answer = call.await.unwrap().unwrap().into_inner();
        let Some(Presigned::Failure(failure)) = answer.result else {
            panic!("an address")
        };
        assert_eq!(
            (failure.reason.as_str(), failure.retryable),
            ("StoreTimeout", true)
        );
    }
    let answer = quick.await.unwrap().unwrap().into_inner();
    let expected = Presigned::Url("s3://images/disk?60".into());
    assert_eq!(answer.result, Some(expected));
    let failure = discard.await.unwrap().unwrap().into_inner().failure;
    assert_eq!(failure.unwrap().reason, "StoreTimeout");
}

#[tokio::test]
async fn questions_that_make_no_sense_are_refused() {
    let (_place, agent) = agent();
    for (object, upload_id) in [(stored("disk"), ""), (None, "u"), (stored(""), "u")] {
        let request = proto::DiscardUploadRequest {
            object,
            upload_id: upload_id.into(),
        };
        let refused = agent.discard_upload(Request::new(request)).await;
        assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    }
    for (object, expires_after_seconds) in [(stored("disk"), 0), (None, 60)] {
        let request = proto::PresignObjectRequest {
            object,
            expires_after_seconds,
        };
        let refused = agent.presign_object(Request::new(request)).await;
        assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    }
}
