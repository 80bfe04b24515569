//! Imports that are interrupted and go on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hypercloud_transfer::{
    CancellationToken, Checkpoint, ImportRequest, Options, TargetSpec, import,
};

use crate::checksum::checksum;
use crate::device::LoopDevice;
use crate::image::{Random, assert_same, disk, qcow2, raw};
use crate::server::{Reply, Server};
use crate::watch::{Watch, file, http, local, options, request};

/// Imports again and again, each time cut off at a random checkpoint, until
/// it is done; the bytes received in all.
async fn interrupted(request: ImportRequest, seed: u64) -> (u64, usize) {
    // Little under way at once, so that there are many checkpoints.
    let options = Options {
        checkpoint_interval: 1 << 20,
        connections: 2,
        workers: Some(1),
        ..options()
    };
    let mut random = Random::new(seed);
    let mut resume: Option<Checkpoint> = None;
    for round in 0..200 {
        let cancel = CancellationToken::new();
        let number = if round < 2 {
            1
        } else {
            1 + random.below(4) as usize
        };
        let watch = Arc::new(Watch {
            stop_at: Some((number, cancel.clone())),
            ..Watch::default()
        });
        // It travels as JSON, as in a journal.
        let text = serde_json::to_string(&resume).unwrap();
        assert!(text.len() < 1000);
        let asked = ImportRequest {
            resume: serde_json::from_str(&text).unwrap(),
            ..request.clone()
        };
        match import(asked, &options, watch.clone(), cancel).await {
            Ok(imported) => return (imported.progress.received, round),
            Err(error) => assert_eq!(error.reason(), "Cancelled", "{}", error.message()),
        }
        let checkpoints = watch.checkpoints.lock().unwrap();
        let done: Vec<_> = checkpoints.iter().map(|c| c.progress().done).collect();
        assert!(done.is_sorted(), "{done:?}");
        resume = checkpoints.last().cloned().or(resume);
    }
    panic!("never done");
}

#[tokio::test]
async fn an_import_cut_off_anywhere_goes_on_and_gives_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = disk(31, 40 << 20);
    let source = raw(directory.path(), "source.raw", &bytes);
    for (seed, arguments) in [
        (1, &["-c"][..]),
        (2, &["-q"]),
        (3, &["-o", "cluster_size=4k", "-W"]),
        (4, &["-c", "-o", "cluster_size=2M,compression_type=zstd"]),
    ] {
        let image = qcow2(&source, "image.qcow2", arguments);
        let content = std::fs::read(&image).unwrap();
        let length = content.len() as u64;
        // Half of them with a digest, which goes on as well.
        let checksum = (seed % 2 == 0).then(|| checksum(&content));
        let server = Server::start(move |request| Reply::tagged(request, &content)).await;
        let mut attempt = 0;
        let (received, rounds) = loop {
            let target = tempfile::tempdir().unwrap();
            let asked = ImportRequest {
                checksum: checksum.clone(),
                ..request(http(&server.url("/image")), file(target.path()))
            };
            let (received, rounds) = interrupted(asked, seed + 10 * attempt).await;
            assert_same(
                &std::fs::read(target.path().join("disk.img")).unwrap(),
                &bytes,
                "resumed",
            );
            if rounds > 1 {
                break (received, rounds);
            }
            // Where a flush is slow, an import can end before its first
            // checkpoint does: then nothing was tried.
            attempt += 1;
            assert!(attempt < 50, "it was interrupted");
        };
        // Each round repeats its head, its tables and what was under way: at
        // most four jobs, and a checkpoint's interval.
        let repeated = received.saturating_sub(length) / rounds as u64;
        assert!(
            repeated < 11 << 20,
            "{repeated} bytes a round in {rounds} rounds"
        );

        let Some(device) = LoopDevice::new(directory.path(), 48 << 20, 512) else {
            continue;
        };
        let asked = request(
            http(&server.url("/image")),
            TargetSpec::BlockDevice(device.path().into()),
        );
        interrupted(asked, seed).await;
        let mut expected = bytes.clone();
        expected.resize(48 << 20, 0);
        assert_same(&device.read(48 << 20), &expected, "resumed device");
    }
}

/// A checkpoint half way through, on a target that is left as it is.
async fn half(request: &ImportRequest) -> Checkpoint {
    let options = Options {
        checkpoint_interval: 1 << 20,
        ..options()
    };
    // Where a flush is slow, an import can end before it is cut off.
    for _ in 0..50 {
        let cancel = CancellationToken::new();
        let watch = Arc::new(Watch {
            stop_at: Some((1, cancel.clone())),
            ..Watch::default()
        });
        if import(request.clone(), &options, watch.clone(), cancel)
            .await
            .is_err()
        {
            let checkpoints = watch.checkpoints.lock().unwrap();
            return checkpoints.last().cloned().unwrap();
        }
    }
    panic!("never cut off");
}

#[tokio::test]
async fn another_source_or_another_target_starts_over() {
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (disk(32, 24 << 20), disk(33, 24 << 20));
    let source = raw(directory.path(), "source.raw", &one);
    let target = tempfile::tempdir().unwrap();
    let asked = request(local(&source), file(target.path()));
    let checkpoint = half(&asked).await;

    // The content changed under the same name and length.
    raw(directory.path(), "source.raw", &two);
    let asked = ImportRequest {
        resume: Some(checkpoint.clone()),
        ..asked
    };
    import(
        asked.clone(),
        &options(),
        Arc::new(()),
        CancellationToken::new(),
    )
    .await
    .unwrap();
    assert_same(
        &std::fs::read(target.path().join("disk.img")).unwrap(),
        &two,
        "changed source",
    );

    // The partial file is not the one that was written.
    let checkpoint = half(&ImportRequest {
        resume: None,
        ..asked.clone()
    })
    .await;
    let partial = target.path().join(".disk.img.partial");
    let stranger = target.path().join("stranger");
    std::fs::write(&stranger, vec![0xee; 24 << 20]).unwrap();
    std::fs::rename(stranger, partial).unwrap();
    let asked = ImportRequest {
        resume: Some(checkpoint),
        ..asked
    };
    import(asked, &options(), Arc::new(()), CancellationToken::new())
        .await
        .unwrap();
    assert_same(
        &std::fs::read(target.path().join("disk.img")).unwrap(),
        &two,
        "another target",
    );
}

#[tokio::test]
async fn a_failed_import_leaves_a_checkpoint_of_all_it_did() {
    let bytes = disk(34, 24 << 20);
    let content = bytes.clone();
    let server = Server::start(move |request| match request.range {
        Some((first, _)) if first >= 16 << 20 => Reply::status(503),
        _ => Reply::tagged(request, &content),
    })
    .await;
    let target = tempfile::tempdir().unwrap();
    let options = Options {
        retries: 2,
        ..options()
    };
    let mut resume = None;
    let mut done = 0;
    // What was under way when the source failed may take another run.
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let watch = Arc::new(Watch::default());
        let asked = ImportRequest {
            resume: resume.clone(),
            ..request(http(&server.url("/image")), file(target.path()))
        };
        let error = import(asked, &options, watch.clone(), CancellationToken::new()).await;
        assert_eq!(error.unwrap_err().reason(), "ServerError");
        let checkpoints = watch.checkpoints.lock().unwrap();
        resume = checkpoints.last().cloned().or(resume);
        let reached = resume.as_ref().map_or(0, |last| last.progress().done);
        assert!(reached >= done, "{reached} after {done}");
        done = reached;
        if done == 16 << 20 {
            return;
        }
    }
    panic!("never got to where the source fails: {done}");
}
