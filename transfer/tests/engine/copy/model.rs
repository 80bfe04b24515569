//! Files against a model in memory: whatever both sides hold, the target is
//! the source's bytes afterwards, and no more is written than has to be.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use hypercloud_transfer::CopyMode;
use proptest::prelude::*;

use super::*;
use crate::image::{Random, assert_same};

/// A stretch of a disk.
#[derive(Debug, Clone, Copy)]
enum Stretch {
    Zeros,
    Noise,
}

/// What a target holds.
#[derive(Debug, Clone)]
enum Before {
    Nothing,
    /// The source's bytes, blocks of them changed, of that length.
    Similar {
        changes: Vec<(prop::sample::Index, usize, bool)>,
        length: usize,
    },
}

fn stretches() -> impl Strategy<Value = Vec<(Stretch, usize)>> {
    let stretch = prop_oneof![Just(Stretch::Zeros), Just(Stretch::Noise)];
    // Short ones, and some that are longer than what is read at once.
    let length = prop_oneof![4 => 1usize..70_000, 1 => 1usize..(5 * MIB)];
    prop::collection::vec((stretch, length), 0..12)
}

fn before() -> impl Strategy<Value = Before> {
    let change = (any::<prop::sample::Index>(), 1usize..20_000, any::<bool>());
    let similar = (prop::collection::vec(change, 0..12), 0usize..(8 * MIB))
        .prop_map(|(changes, length)| Before::Similar { changes, length });
    prop_oneof![1 => Just(Before::Nothing), 4 => similar]
}

fn disk(stretches: &[(Stretch, usize)], seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::new();
    for (stretch, length) in stretches {
        let start = bytes.len();
        bytes.resize(start + length, 0);
        if let Stretch::Noise = stretch {
            random.fill(&mut bytes[start..]);
        }
    }
    bytes
}

impl Before {
    fn bytes(&self, source: &[u8]) -> Option<Vec<u8>> {
        let Self::Similar { changes, length } = self else {
            return None;
        };
        let mut bytes = source.to_vec();
        for (at, length, zeros) in changes.iter().filter(|_| !source.is_empty()) {
            let start = at.index(bytes.len());
            let end = (start + length).min(bytes.len());
            if *zeros {
                bytes[start..end].fill(0);
            } else {
                Random::new(*length as u64).fill(&mut bytes[start..end]);
            }
        }
        // Half of them are as long as the source.
        if length % 2 == 0 {
            let kept = bytes.len();
            bytes.resize(*length, 0x5a);
            Random::new(3).fill(&mut bytes[kept.min(*length)..]);
        }
        Some(bytes)
    }
}

/// Bytes that have to be written: the blocks that differ and are not zeros.
fn least(source: &[u8], target: &[u8]) -> u64 {
    let mut target = target.to_vec();
    target.resize(source.len(), 0);
    let differ = source.chunks(4096).zip(target.chunks(4096));
    differ
        .filter(|(new, old)| new != old && new.iter().any(|byte| *byte != 0))
        .map(|(new, _)| new.len() as u64)
        .sum()
}

fn blocks_with_data(bytes: &[u8]) -> u64 {
    let data = |block: &&[u8]| block.iter().any(|byte| *byte != 0);
    bytes.chunks(4096).filter(data).count() as u64 * 4096
}

async fn check(source: Vec<u8>, before: Option<Vec<u8>>, mode: CopyMode) {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    sparse(&from.path().join("disk.img"), &source);
    let path = to.path().join("disk.img");
    if let Some(before) = &before {
        sparse(&path, before);
        let kept = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, kept).unwrap();
    }
    let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
    let was = before.as_ref().map(|_| inode(&path));
    let asked = request(source_file(from.path()), target_file(to.path()), mode);
    let progress = copied(asked).await.unwrap();

    assert_same(&std::fs::read(&path).unwrap(), &source, "the disk");
    let names = std::fs::read_dir(to.path()).unwrap().count();
    assert_eq!(names, 1, "nothing beside the disk");
    let size = source.len() as u64;
    assert_eq!((progress.total, progress.done), (size, size));
    assert!(progress.received <= size);
    let in_place = mode == CopyMode::Differences && was.is_some();
    let held = before.filter(|_| in_place).unwrap_or_default();
    assert_eq!(progress.written, least(&source, &held));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, if in_place { 0o600 } else { 0o640 });
    assert_eq!(was == Some(inode(&path)), in_place);
    // Extents of a file system may take a block or two for themselves.
    let most = blocks_with_data(&source).max(if in_place {
        blocks_with_data(&source) + 4096
    } else {
        0
    });
    assert!(
        allocated(&path) <= most + 16384,
        "{} bytes taken for {most}",
        allocated(&path)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn the_target_becomes_the_source_whatever_both_hold(
        stretches in stretches(),
        seed in any::<u64>(),
        before in before(),
        differences in any::<bool>(),
    ) {
        let source = disk(&stretches, seed);
        let before = before.bytes(&source);
        let mode = if differences { CopyMode::Differences } else { CopyMode::Whole };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(check(source, before, mode));
    }
}

/// The last block may be shorter than any run of zeros that is a hole.
#[tokio::test]
async fn a_short_last_block_of_zeros_is_not_written() {
    let mut source = disk(&[(Stretch::Noise, 8000)], 1);
    source.resize(8655, 0);
    check(source.clone(), None, CopyMode::Whole).await;
    check(source.clone(), Some(vec![7; 8655]), CopyMode::Differences).await;
    check(source, Some(vec![7; 20_000]), CopyMode::Differences).await;
}

/// Where a disk that is large and mostly holes is copied, its holes are not
/// gone through byte by byte.
#[tokio::test]
async fn a_terabyte_of_holes_costs_nothing() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let size = 1u64 << 40;
    let file = File::create(from.path().join("disk.img")).unwrap();
    file.set_len(size).unwrap();
    for gigabyte in [0u64, 3, 700, 1023] {
        file.write_all_at(&[7; 9000], (gigabyte << 30) + 12345)
            .unwrap();
    }
    let path = to.path().join("disk.img");
    for (round, mode) in [CopyMode::Whole, CopyMode::Differences, CopyMode::Whole]
        .into_iter()
        .enumerate()
    {
        let asked = request(source_file(from.path()), target_file(to.path()), mode);
        let sparse = Options {
            space_policy: hypercloud_transfer::SpacePolicy::Sparse,
            ..options()
        };
        let done = copy(asked, &sparse, Arc::new(()), CancellationToken::new())
            .await
            .unwrap();
        assert_eq!(done.progress.done, size);
        assert!(done.progress.received <= 4 << 20, "{:?}", done.progress);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), size);
        assert!(allocated(&path) < 128 << 10, "{}", allocated(&path));
        let mut bytes = [0; 9000];
        let target = File::options().read(true).write(true).open(&path).unwrap();
        target
            .read_exact_at(&mut bytes, (700 << 30) + 12345)
            .unwrap();
        assert_eq!(bytes, [7; 9000]);
        assert_eq!(done.progress.written == 0, round == 1, "only the second");
        // Next time there is something to compare, in a hole of the source.
        target.write_all_at(&[1; 5000], 77 << 30).unwrap();
        if round == 0 {
            let asked = request(
                source_file(from.path()),
                target_file(to.path()),
                CopyMode::Differences,
            );
            let done = copy(asked, &sparse, Arc::new(()), CancellationToken::new());
            assert_eq!(done.await.unwrap().progress.written, 0);
            let mut bytes = [1; 5000];
            target.read_exact_at(&mut bytes, 77 << 30).unwrap();
            assert_eq!(bytes, [0; 5000]);
        }
    }
}
