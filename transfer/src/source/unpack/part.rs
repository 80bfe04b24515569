//! A buffer of which the beginning is filled.

use crate::buffer::Buffer;

/// Bytes in a buffer that may be larger.
pub(crate) struct Part {
    buffer: Buffer,
    filled: usize,
}

impl Part {
    pub(crate) fn new(buffer: Buffer, filled: usize) -> Self {
        let filled = filled.min(buffer.len());
        Self { buffer, filled }
    }

    /// The buffer, and how much of it is filled.
    pub(crate) fn into_inner(self) -> (Buffer, usize) {
        (self.buffer, self.filled)
    }

    /// What is not filled yet.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.filled..).unwrap_or_default()
    }

    /// The first `count` bytes of the room were filled.
    pub(crate) fn fill(&mut self, count: usize) {
        self.filled = (self.filled + count).min(self.buffer.len());
    }

    /// Fills zeros up to a multiple of 512, where the buffer has the room.
    pub(crate) fn pad(&mut self) {
        let padded = self.filled.next_multiple_of(512).min(self.buffer.len());
        self.buffer
            .get_mut(self.filled..padded)
            .unwrap_or_default()
            .fill(0);
        self.filled = padded;
    }
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(..self.filled).unwrap_or_default()
    }
}
