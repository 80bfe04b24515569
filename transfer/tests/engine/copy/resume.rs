//! Copies that are cut off anywhere and go on.

use hypercloud_transfer::CopyMode;

use super::*;
use crate::device::LoopDevice;
use crate::image::{Random, assert_same, disk};

const SIZE: usize = 40 * MIB;

/// One worker, whichever the mode, so that no checkpoint is left out as
/// another is being taken.
fn slow() -> Options {
    Options {
        memory_budget: 1 << 20,
        workers: Some(1),
        ..options()
    }
}

/// Copies again and again, each time cut off at a random checkpoint or a
/// random moment, until it is done. What was read in all, and how often.
async fn interrupted(request: CopyRequest, seed: u64) -> (u64, usize) {
    let mut random = Random::new(seed);
    let mut resume: Option<CopyCheckpoint> = None;
    for round in 0..200 {
        let cancel = CancellationToken::new();
        let watch = Arc::new(Watch {
            stop_at: Some((1 + random.below(5) as usize, cancel.clone())),
            ..Watch::default()
        });
        let text = serde_json::to_string(&resume).unwrap();
        assert!(text.len() < 500);
        let asked = CopyRequest {
            resume: serde_json::from_str(&text).unwrap(),
            ..request.clone()
        };
        if random.below(3) == 0 {
            let (cancel, after) = (cancel.clone(), random.below(20_000));
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(after)).await;
                cancel.cancel();
            });
        }
        match copy(asked, &slow(), watch.clone(), cancel).await {
            Ok(copied) => return (copied.progress.received, round),
            Err(error) => assert_eq!(error.reason(), "Cancelled", "{}", error.message()),
        }
        let checkpoints = watch.checkpoints.lock().unwrap();
        let offsets: Vec<_> = checkpoints.iter().map(CopyCheckpoint::offset).collect();
        assert!(offsets.is_sorted(), "{offsets:?}");
        let before = resume.as_ref().map_or(0, CopyCheckpoint::offset);
        assert!(offsets.first().is_none_or(|first| *first > before));
        resume = checkpoints.last().cloned().or(resume);
    }
    panic!("never done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_cut_off_anywhere_goes_on_and_gives_the_same_bytes() {
    let bytes = disk(21, SIZE);
    let from = tempfile::tempdir().unwrap();
    sparse(&from.path().join("disk.img"), &bytes);
    let mut rounds = 0;
    for (seed, mode) in (0..8u64).zip([CopyMode::Whole, CopyMode::Differences].repeat(4)) {
        let to = tempfile::tempdir().unwrap();
        std::fs::write(to.path().join("disk.img"), disk(seed, SIZE - 77)).unwrap();
        let asked = request(source_file(from.path()), target_file(to.path()), mode);
        let (read, often) = interrupted(asked, seed).await;
        let found = std::fs::read(to.path().join("disk.img")).unwrap();
        assert_same(&found, &bytes, "file");
        // Each round repeats no more than what was under way.
        let repeated = read.saturating_sub(SIZE as u64);
        assert!(repeated <= often as u64 * (4 << 20), "{read} in {often}");
        rounds += often;

        let Some(target) = LoopDevice::new(to.path(), SIZE + 3 * MIB, 512) else {
            continue;
        };
        let device = TargetSpec::BlockDevice(target.path().into());
        let asked = request(source_file(from.path()), device, mode);
        rounds += interrupted(asked, seed).await.1;
        let mut expected = bytes.clone();
        expected.resize(SIZE + 3 * MIB, 0);
        assert_same(&target.read(SIZE + 3 * MIB), &expected, "device");
    }
    assert!(rounds > 8, "interrupted {rounds} times");
}

/// A checkpoint half way through, and the target as it was left.
async fn half(request: &CopyRequest) -> CopyCheckpoint {
    let cancel = CancellationToken::new();
    let watch = Arc::new(Watch {
        stop_at: Some((3, cancel.clone())),
        ..Watch::default()
    });
    let error = copy(request.clone(), &slow(), watch.clone(), cancel)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "Cancelled");
    let checkpoints = watch.checkpoints.lock().unwrap();
    checkpoints.last().cloned().unwrap()
}

#[tokio::test]
async fn a_checkpoint_of_another_source_or_target_is_void() {
    let bytes = disk(22, SIZE);
    let from = tempfile::tempdir().unwrap();
    let source = from.path().join("disk.img");
    for change in ["source", "target", "mode"] {
        sparse(&source, &bytes);
        let to = tempfile::tempdir().unwrap();
        let path = to.path().join("disk.img");
        std::fs::write(&path, vec![0xaa; SIZE]).unwrap();
        let asked = request(
            source_file(from.path()),
            target_file(to.path()),
            CopyMode::Differences,
        );
        let checkpoint = half(&asked).await;
        assert!(checkpoint.offset() > 0);
        let mut expected = bytes.clone();
        let mut mode = CopyMode::Differences;
        match change {
            "source" => {
                expected[0] ^= 1;
                let file = File::options().write(true).open(&source).unwrap();
                file.write_all_at(&expected[..1], 0).unwrap();
            }
            "target" => {
                std::fs::remove_file(&path).unwrap();
                std::fs::write(&path, vec![0xbb; SIZE]).unwrap();
                // The inode may have been given to this one as well, and then
                // it is for the caller to know: see the jobs' records.
                let file = File::create(to.path().join("other")).unwrap();
                file.write_all_at(&vec![0xbb; SIZE], 0).unwrap();
                std::fs::rename(to.path().join("other"), &path).unwrap();
            }
            _ => mode = CopyMode::Whole,
        }
        let resumed = CopyRequest {
            resume: Some(checkpoint),
            mode,
            ..asked
        };
        copied(resumed).await.unwrap();
        assert_same(&std::fs::read(&path).unwrap(), &expected, change);
    }
}

/// What lies before a checkpoint is not looked at again.
#[tokio::test]
async fn a_checkpoint_is_trusted() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = disk(23, SIZE);
    sparse(&from.path().join("disk.img"), &bytes);
    let asked = request(
        source_file(from.path()),
        target_file(to.path()),
        CopyMode::Whole,
    );
    let checkpoint = half(&asked).await;
    let partial = to.path().join(".disk.img.partial");
    let file = File::options().write(true).open(partial).unwrap();
    file.write_all_at(&[0xee; 512], 4096).unwrap();
    let before = checkpoint.progress();
    let resumed = CopyRequest {
        resume: Some(checkpoint.clone()),
        ..asked
    };
    let progress = copied(resumed).await.unwrap();
    let mut expected = bytes;
    expected[4096..4608].fill(0xee);
    let found = std::fs::read(to.path().join("disk.img")).unwrap();
    assert_same(&found, &expected, "resumed");
    let rest = SIZE as u64 - checkpoint.offset();
    assert!(progress.received - before.received <= rest);
    assert_eq!(progress.done, SIZE as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_is_prompt_and_progress_only_grows() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = disk(24, 64 * MIB);
    sparse(&from.path().join("disk.img"), &bytes);
    let cancel = CancellationToken::new();
    let watch = Arc::new(Watch {
        stop_at: Some((4, cancel.clone())),
        ..Watch::default()
    });
    let asked = request(
        source_file(from.path()),
        target_file(to.path()),
        CopyMode::Whole,
    );
    let copying = tokio::spawn({
        let (watch, cancel) = (watch.clone(), cancel.clone());
        async move { copy(asked, &slow(), watch, cancel).await }
    });
    tokio::time::timeout(Duration::from_secs(60), cancel.cancelled())
        .await
        .expect("the fourth checkpoint");
    let asked_at = std::time::Instant::now();
    let error = copying.await.unwrap().unwrap_err();
    assert!(matches!(error, TransferError::Cancelled));
    let took = asked_at.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    let seen = watch.progress.lock().unwrap();
    assert!(seen.is_sorted_by_key(|p| (p.done, p.received)));
    assert!(
        seen.iter()
            .all(|p| p.total == 64 << 20 && p.done <= p.total)
    );
    // What is left is to be resumed, and has no disk's name.
    assert!(!to.path().join("disk.img").exists());
    assert!(to.path().join(".disk.img.partial").exists());
}
