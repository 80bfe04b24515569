//! The thread that unpacks: packed parts in, plain parts out.

use std::sync::Arc;

use hypercloud_disk::{Packing, Refusal};
use tokio::sync::mpsc::Receiver;

use super::Part;
use super::codec::{Codec, Limits};
use super::feed::Fed;
use crate::digest::Tap;
use crate::error::SourceError;

/// Packed bytes that may come without anything coming out of them, beside
/// those that what came out accounts for. Names, comments, frames to be
/// skipped, indexes and filling are all lawful, and none of them has to end.
/// The index of an xz file and the seek table of a Zstandard one are less than
/// a thousandth of what they are about.
const HOLLOW: u64 = 64 << 20;

/// Why unpacking ended early.
pub(super) enum Stop {
    Failed(SourceError),
    /// Nobody feeds it, or nobody takes what comes out, any more.
    Abandoned,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Failed(SourceError::Refused(refusal))
    }
}

/// Packed bytes, in order.
pub(super) struct Input {
    parts: Receiver<Fed>,
    part: Option<Part>,
    /// How much of the part is used up.
    used: usize,
    is_last: bool,
    /// Takes in all that comes.
    tap: Option<Arc<Tap>>,
    came: u64,
    packing: Packing,
    /// How many bytes may have come, given what came out.
    allowed: u64,
}

impl Input {
    pub(super) fn new(packing: Packing, parts: Receiver<Fed>, tap: Option<Arc<Tap>>) -> Self {
        Self {
            packing,
            allowed: HOLLOW,
            tap,
            came: 0,
            parts,
            part: None,
            used: 0,
            is_last: false,
        }
    }

    /// What is at hand. Empty only at the end, once [`Self::refill`] was
    /// called.
    fn bytes(&self) -> &[u8] {
        self.part
            .as_ref()
            .and_then(|part| part.as_ref().get(self.used..))
            .unwrap_or_default()
    }

    fn refill(&mut self) -> Result<(), Stop> {
        while self.bytes().is_empty() && !self.is_last {
            self.part = None;
            self.used = 0;
            match self.parts.blocking_recv() {
                Some(Fed::Part(part)) => {
                    if self.came > self.allowed {
                        let (packing, limit) = (self.packing, self.came);
                        return Err(Refusal::HollowPacking { packing, limit }.into());
                    }
                    if let Some(tap) = &self.tap {
                        tap.feed(self.came, part.as_ref());
                    }
                    self.came += part.as_ref().len() as u64;
                    self.part = Some(part);
                }
                Some(Fed::End) => self.is_last = true,
                Some(Fed::Failed(error)) => return Err(Stop::Failed(error)),
                None => return Err(Stop::Abandoned),
            }
        }
        Ok(())
    }

    /// Some bytes came out of those that came. What does not shrink when it
    /// is packed grows by a little.
    fn bore(&mut self, plain: usize) {
        self.allowed = self.allowed.saturating_add(2 * plain as u64);
    }

    /// The first byte behind any zeros, which are passed over and counted.
    fn behind_zeros(&mut self) -> Result<(u64, Option<u8>), Stop> {
        let mut zeros = 0;
        loop {
            self.refill()?;
            let run = self.bytes().iter().take_while(|byte| **byte == 0).count();
            self.used += run;
            zeros += run as u64;
            match self.bytes().first() {
                Some(byte) => return Ok((zeros, Some(*byte))),
                None if self.is_last => return Ok((zeros, None)),
                None => {}
            }
        }
    }
}

/// Gathers plain bytes into parts.
pub(super) struct Output<N, G> {
    new: N,
    /// Takes a full part; fails when nobody wants more.
    give: G,
    part: Option<Part>,
}

impl<N: Fn() -> Part, G: FnMut(Part) -> Result<(), ()>> Output<N, G> {
    pub(super) fn new(new: N, give: G) -> Self {
        Self {
            new,
            give,
            part: None,
        }
    }

    fn room(&mut self) -> &mut [u8] {
        self.part.get_or_insert_with(&self.new).room()
    }

    fn filled(&mut self, count: usize) -> Result<(), Stop> {
        if let Some(part) = &mut self.part {
            part.fill(count);
            if part.room().is_empty() {
                return self.give();
            }
        }
        Ok(())
    }

    fn give(&mut self) -> Result<(), Stop> {
        match self.part.take().filter(|part| !part.as_ref().is_empty()) {
            Some(part) => (self.give)(part).map_err(|()| Stop::Abandoned),
            None => Ok(()),
        }
    }
}

/// Unpacks all of the input.
pub(super) fn unpack<N: Fn() -> Part, G: FnMut(Part) -> Result<(), ()>>(
    packing: Packing,
    limits: Limits,
    input: &mut Input,
    output: &mut Output<N, G>,
) -> Result<(), Stop> {
    let mut codec = Codec::new(packing, limits)?;
    loop {
        unit(packing, &mut codec, input, output)?;
        if !is_followed(packing, input)? {
            return output.give();
        }
        codec = codec.again()?;
    }
}

fn unit<N: Fn() -> Part, G: FnMut(Part) -> Result<(), ()>>(
    packing: Packing,
    codec: &mut Codec,
    input: &mut Input,
    output: &mut Output<N, G>,
) -> Result<(), Stop> {
    let mut idle = 0;
    loop {
        input.refill()?;
        let step = codec.step(input.bytes(), output.room(), input.is_last)?;
        input.used += step.consumed;
        input.bore(step.produced);
        output.filled(step.produced)?;
        if step.ended {
            return Ok(());
        }
        // A decoder may look twice before it says that it wants more.
        idle = if step.consumed + step.produced == 0 {
            idle + 1
        } else {
            0
        };
        if idle > 2 {
            let refusal = if input.is_last && input.bytes().is_empty() {
                Refusal::TruncatedPacking(packing)
            } else {
                Refusal::DamagedPacking(packing)
            };
            return Err(refusal.into());
        }
    }
}

/// Whether another unit follows the one that ended.
fn is_followed(packing: Packing, input: &mut Input) -> Result<bool, Stop> {
    let (zeros, next) = match packing {
        // gzip ignores zeros there, as tapes have them; xz has them in fours.
        Packing::Gzip | Packing::Xz => input.behind_zeros()?,
        Packing::Zstd => {
            input.refill()?;
            (0, input.bytes().first().copied())
        }
    };
    if packing == Packing::Xz && zeros % 4 != 0 {
        return Err(Refusal::DamagedPacking(packing).into());
    }
    match (packing, next) {
        (_, None) => Ok(false),
        (Packing::Gzip, Some(0x1f))
        | (Packing::Xz, Some(0xfd))
        | (Packing::Zstd, Some(0x28 | 0x50..=0x5f)) => Ok(true),
        _ => Err(Refusal::TrailingBytes(packing).into()),
    }
}
