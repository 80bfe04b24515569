//! Which parts the store has, and where that lets an export be resumed.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::parts::Mark;
use crate::checksum::hex;
use crate::object_store::Sent;

/// The parts of one upload.
pub(super) struct Ledger {
    sent: BTreeMap<u32, Sent>,
    marks: BTreeMap<u32, Mark>,
    /// All parts before this are stored, but for one that is sent last.
    next: u32,
    /// Of those parts.
    digest: Sha256,
}

/// A place that all parts before are stored of.
pub(super) struct Settled {
    pub(super) next_part: u32,
    /// What tells those parts.
    pub(super) parts: String,
    pub(super) mark: Mark,
    /// Their bytes.
    pub(super) stored: u64,
}

fn add(digest: &mut Sha256, part: &Sent) {
    digest.update(format!("{} {} {}\n", part.number, part.size, part.etag));
}

/// What tells some parts from others.
pub(super) fn fingerprint<'a>(parts: impl Iterator<Item = &'a Sent>) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        add(&mut digest, part);
    }
    hex(&digest.finalize())
}

impl Ledger {
    /// Begins with the parts that are stored, all those before `next`.
    pub(super) fn new(next: u32, sent: Vec<Sent>) -> Self {
        let mut digest = Sha256::new();
        for part in &sent {
            add(&mut digest, part);
        }
        Self {
            sent: sent.into_iter().map(|part| (part.number, part)).collect(),
            marks: BTreeMap::new(),
            next,
            digest,
        }
    }

    /// A part is stored.
    pub(super) fn add(&mut self, part: Sent, mark: Option<Mark>) {
        if let Some(mark) = mark {
            self.marks.insert(part.number, mark);
        }
        self.sent.insert(part.number, part);
    }

    /// The last place that was reached since the last one that this gave.
    pub(super) fn settle(&mut self) -> Option<Settled> {
        let mut found = None;
        while let Some(part) = self.sent.get(&self.next) {
            add(&mut self.digest, part);
            if let Some(mark) = self.marks.remove(&self.next) {
                let parts = hex(&self.digest.clone().finalize());
                found = Some((self.next + 1, parts, mark));
            }
            self.next += 1;
        }
        let (next_part, parts, mark) = found?;
        Some(Settled {
            next_part,
            parts,
            mark,
            stored: self
                .sent
                .range(..next_part)
                .map(|(_, part)| part.size)
                .sum(),
        })
    }

    /// All parts, in order.
    pub(super) fn parts(&self) -> Vec<Sent> {
        self.sent.values().cloned().collect()
    }

    /// The object's size.
    pub(super) fn size(&self) -> u64 {
        self.sent.values().map(|part| part.size).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(number: u32) -> Sent {
        Sent {
            number,
            size: 10,
            etag: format!("\"{number}\""),
            checksum: None,
        }
    }

    fn mark(at: u64) -> Mark {
        Mark {
            at,
            layout: None,
            first: None,
            digest: None,
            read: 0,
        }
    }

    proptest! {
        #[test]
        fn a_place_is_told_when_all_before_it_is_stored(
            order in Just((2..30u32).collect::<Vec<_>>()).prop_shuffle(),
            before in 2..10u32,
        ) {
            let known = (2..before).map(part).collect();
            let mut ledger = Ledger::new(before, known);
            let mut stored: Vec<bool> = (0..30).map(|number| number < before).collect();
            let mut last = 0;
            for number in order.into_iter().filter(|number| *number >= before) {
                stored[number as usize] = true;
                // Every third has a place.
                ledger.add(part(number), (number % 3 == 0).then(|| mark(u64::from(number))));
                let reached = (2..30).take_while(|number| stored[*number as usize]).last();
                let expected = (before..=reached.unwrap_or(0)).rev().find(|number| number % 3 == 0);
                match ledger.settle() {
                    Some(settled) => {
                        prop_assert_eq!(Some(settled.next_part - 1), expected);
                        prop_assert_eq!(settled.mark.at, u64::from(settled.next_part) - 1);
                        let parts: Vec<Sent> = (2..settled.next_part).map(part).collect();
                        prop_assert_eq!(settled.stored, parts.len() as u64 * 10);
                        prop_assert_eq!(settled.parts, fingerprint(parts.iter()));
                        prop_assert!(settled.next_part > last);
                        last = settled.next_part;
                    }
                    None => prop_assert!(expected.is_none_or(|number| number < last)),
                }
            }
            prop_assert_eq!(ledger.parts().len(), 28);
            prop_assert_eq!(ledger.size(), 280);
        }
    }
}
