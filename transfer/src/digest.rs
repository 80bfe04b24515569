//! The digest of a source's bytes, taken as they go by.
//!
//! Stretches of a source arrive in any order and a digest is of all bytes in
//! their own. So a stretch that is early waits, with its memory, until those
//! before it have come; whoever brings the one that is missing takes in all
//! that follow it. Bytes that come twice count once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use hypercloud_disk::Extent;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use sha2::digest::common::hazmat::{SerializableState, SerializedState};
use sha2::{Digest as _, Sha256, Sha512};

use crate::buffer::Buffer;
use crate::checksum::{self, Algorithm, Checksum};

/// Takes in the bytes of one source.
pub(crate) struct Tap {
    taken: Mutex<Taken>,
    /// Where `taken` is, without waiting for who is at it.
    position: AtomicU64,
    early: Mutex<BTreeMap<u64, Stretch>>,
}

struct Taken {
    hasher: Hasher,
    /// All bytes before this are taken in.
    position: u64,
}

struct Stretch {
    length: usize,
    bytes: Buffer,
}

enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

/// How far a digest is: part of a checkpoint.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DigestMark {
    algorithm: Algorithm,
    position: u64,
    /// The hash function's state, as hexadecimal digits.
    state: String,
}

impl fmt::Debug for DigestMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} up to {}", self.algorithm, self.position)
    }
}

impl Hasher {
    fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(Sha256::new()),
            Algorithm::Sha512 => Self::Sha512(Sha512::new()),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(sha) => sha.update(bytes),
            Self::Sha512(sha) => sha.update(bytes),
        }
    }

    fn restored(mark: &DigestMark) -> Option<Self> {
        fn state<H: SerializableState>(bytes: &[u8]) -> Option<H> {
            let bytes = SerializedState::<H>::try_from(bytes).ok()?;
            H::deserialize(&bytes).ok()
        }
        let bytes = checksum::bytes(&mark.state)?;
        match mark.algorithm {
            Algorithm::Sha256 => state(&bytes).map(Self::Sha256),
            Algorithm::Sha512 => state(&bytes).map(Self::Sha512),
        }
    }

    fn state(&self) -> String {
        match self {
            Self::Sha256(sha) => checksum::hex(&sha.serialize()),
            Self::Sha512(sha) => checksum::hex(&sha.serialize()),
        }
    }

    fn algorithm(&self) -> Algorithm {
        match self {
            Self::Sha256(_) => Algorithm::Sha256,
            Self::Sha512(_) => Algorithm::Sha512,
        }
    }

    fn finish(&self) -> Vec<u8> {
        match self {
            Self::Sha256(sha) => sha.clone().finalize().to_vec(),
            Self::Sha512(sha) => sha.clone().finalize().to_vec(),
        }
    }
}

impl Tap {
    /// A tap that has taken nothing in, or goes on where `mark` was, if that
    /// is one of the same algorithm.
    pub(crate) fn new(algorithm: Algorithm, mark: Option<&DigestMark>) -> Self {
        let taken = mark
            .filter(|mark| mark.algorithm == algorithm)
            .and_then(|mark| {
                let hasher = Hasher::restored(mark)?;
                let position = mark.position;
                Some(Taken { hasher, position })
            })
            .unwrap_or_else(|| Taken {
                hasher: Hasher::new(algorithm),
                position: 0,
            });
        Self {
            position: AtomicU64::new(taken.position),
            taken: Mutex::new(taken),
            early: Mutex::new(BTreeMap::new()),
        }
    }

    /// All bytes before this are taken in.
    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Takes in the bytes at `place`, which begin `bytes`, now or when those
    /// before them have come. Computes: not for threads that may not block.
    pub(crate) fn offer(&self, place: Extent, bytes: Buffer) {
        let length = usize::try_from(place.length).unwrap_or(usize::MAX);
        if place.end() > self.position() {
            let mut early = self.early.lock();
            // Of two that begin alike, the longer one has all of the other.
            let longer = early
                .get(&place.start)
                .is_none_or(|other| other.length < length);
            if longer {
                early.insert(place.start, Stretch { length, bytes });
            }
        }
        self.settle();
    }

    /// Takes in what is ready. One thread computes; one that finds another at
    /// it leaves. So whoever has held the lock looks once more behind it.
    fn settle(&self) {
        while self.has_ready() {
            let Some(mut taken) = self.taken.try_lock() else {
                return;
            };
            while let Some((start, stretch)) = self.next_ready(taken.position) {
                let bytes = stretch.bytes.get(..stretch.length).unwrap_or_default();
                self.take(&mut taken, start, bytes);
                // A checkpoint waits for one stretch, not for all there are.
                MutexGuard::bump(&mut taken);
            }
        }
    }

    /// Takes in bytes that are no earlier than all before them.
    pub(crate) fn feed(&self, start: u64, bytes: &[u8]) {
        self.take(&mut self.taken.lock(), start, bytes);
    }

    fn take(&self, taken: &mut Taken, start: u64, bytes: &[u8]) {
        let known = usize::try_from(taken.position.saturating_sub(start)).unwrap_or(usize::MAX);
        if let Some(news) = bytes.get(known..).filter(|_| start <= taken.position) {
            taken.hasher.update(news);
            taken.position += news.len() as u64;
            self.position.store(taken.position, Ordering::Release);
        }
    }

    fn has_ready(&self) -> bool {
        let early = self.early.lock();
        let first = early.first_key_value().map(|(start, _)| *start);
        first.is_some_and(|start| start <= self.position())
    }

    fn next_ready(&self, position: u64) -> Option<(u64, Stretch)> {
        let mut early = self.early.lock();
        let first = early.first_entry()?;
        (*first.key() <= position).then(|| first.remove_entry())
    }

    /// How far it is.
    pub(crate) fn mark(&self) -> DigestMark {
        let mark = {
            let taken = self.taken.lock();
            DigestMark {
                algorithm: taken.hasher.algorithm(),
                position: taken.position,
                state: taken.hasher.state(),
            }
        };
        self.settle();
        mark
    }

    /// The digest of all that was taken in.
    pub(crate) fn checksum(&self) -> Option<Checksum> {
        self.settle();
        let taken = self.taken.lock();
        Checksum::new(taken.hasher.algorithm(), taken.hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn buffer(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::fixed(bytes.len().max(1));
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer
    }

    fn expected(algorithm: Algorithm, bytes: &[u8]) -> Checksum {
        let digest = match algorithm {
            Algorithm::Sha256 => Sha256::digest(bytes).to_vec(),
            Algorithm::Sha512 => Sha512::digest(bytes).to_vec(),
        };
        Checksum::new(algorithm, digest).unwrap()
    }

    proptest! {
        #[test]
        fn the_order_and_repeats_do_not_matter(
            bytes in prop::collection::vec(any::<u8>(), 1..600),
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..90), 0..12),
            seed in any::<u64>(),
            wide in any::<bool>(),
            stop in any::<prop::sample::Index>(),
        ) {
            let algorithm = if wide { Algorithm::Sha512 } else { Algorithm::Sha256 };
            // All of it in steps, and some of it once more.
            let mut parts: Vec<(usize, usize)> =
                (0..bytes.len()).step_by(37).map(|at| (at, (at + 37).min(bytes.len()))).collect();
            for (at, length) in cuts {
                let at = at.index(bytes.len());
                parts.push((at, (at + length).min(bytes.len())));
            }
            parts.sort_by_key(|part| (part.0 as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let stop = stop.index(parts.len());
            let mut tap = Tap::new(algorithm, None);
            for (index, (from, to)) in parts.iter().enumerate() {
                if index == stop {
                    // As a checkpoint does: what waits is lost, and comes again.
                    let text = serde_json::to_string(&tap.mark()).unwrap();
                    let mark: DigestMark = serde_json::from_str(&text).unwrap();
                    tap = Tap::new(algorithm, Some(&mark));
                    for (from, to) in &parts[..index] {
                        tap.offer(Extent::between(*from as u64, *to as u64), buffer(&bytes[*from..*to]));
                    }
                }
                tap.offer(Extent::between(*from as u64, *to as u64), buffer(&bytes[*from..*to]));
            }
            prop_assert_eq!(tap.position(), bytes.len() as u64);
            prop_assert_eq!(tap.checksum().unwrap(), expected(algorithm, &bytes));
        }
    }

    #[test]
    fn a_stream_read_twice_counts_once() {
        let bytes: Vec<u8> = (0..200).collect();
        let tap = Tap::new(Algorithm::Sha256, None);
        tap.feed(0, &bytes[..150]);
        tap.feed(0, &bytes[..70]);
        tap.feed(70, &bytes[70..]);
        assert_eq!(tap.checksum(), Some(expected(Algorithm::Sha256, &bytes)));
    }

    #[test]
    fn a_mark_of_another_algorithm_or_of_nonsense_begins_anew() {
        let tap = Tap::new(Algorithm::Sha256, None);
        tap.feed(0, b"abc");
        let mark = tap.mark();
        assert_eq!(Tap::new(Algorithm::Sha512, Some(&mark)).position(), 0);
        let cut = DigestMark {
            state: mark.state[2..].to_owned(),
            ..mark.clone()
        };
        assert_eq!(Tap::new(Algorithm::Sha256, Some(&cut)).position(), 0);
        assert_eq!(Tap::new(Algorithm::Sha256, Some(&mark)).position(), 3);
    }
}
