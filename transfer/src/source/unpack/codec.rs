//! The decoders, one step at a time.
//!
//! Each works on one unit: a member of gzip, a stream of xz, a frame of
//! Zstandard. What may stand between units is for [`super::inflate`].

use flate2::{Decompress, FlushDecompress, Status};
use hypercloud_disk::{Packing, Refusal};
use liblzma::stream::{Action, Stream};
use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// What a decoder may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of memory.
    pub(super) memory: u64,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) consumed: usize,
    pub(super) produced: usize,
    /// The unit is at its end, and was found good.
    pub(super) ended: bool,
}

/// A decoder of one unit.
pub(super) struct Codec {
    packing: Packing,
    limits: Limits,
    inner: Inner,
}

enum Inner {
    Gzip(Decompress),
    Xz(Stream),
    Zstd(Box<DCtx<'static>>),
}

impl Codec {
    pub(super) fn new(packing: Packing, limits: Limits) -> Result<Self, Refusal> {
        let too_much = || too_much(packing, limits);
        let inner = match packing {
            Packing::Gzip => Inner::Gzip(Decompress::new_gzip(15)),
            // Not liblzma's threads: they hold whole blocks, and their results,
            // beside what is counted here.
            Packing::Xz => {
                let stream = Stream::new_stream_decoder(limits.memory, 0);
                Inner::Xz(stream.map_err(|_| too_much())?)
            }
            Packing::Zstd => {
                let mut context = DCtx::try_create().ok_or_else(too_much)?;
                // What is beside the window is small.
                context
                    .set_parameter(DParameter::WindowLogMax(limits.memory.max(1).ilog2()))
                    .map_err(|_| too_much())?;
                Inner::Zstd(Box::new(context))
            }
        };
        Ok(Self {
            packing,
            limits,
            inner,
        })
    }

    /// A decoder of the next unit.
    pub(super) fn again(self) -> Result<Self, Refusal> {
        match self.inner {
            // It goes on by itself.
            Inner::Zstd(_) => Ok(self),
            _ => Self::new(self.packing, self.limits),
        }
    }

    /// Decodes some of `input` into `output`. `is_last`: nothing follows the
    /// input.
    pub(super) fn step(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        is_last: bool,
    ) -> Result<Step, Refusal> {
        let damaged = Refusal::DamagedPacking(self.packing);
        match &mut self.inner {
            Inner::Gzip(inflate) => {
                let before = (inflate.total_in(), inflate.total_out());
                let status = inflate
                    .decompress(input, output, FlushDecompress::None)
                    .map_err(|_| damaged)?;
                Ok(Step {
                    consumed: (inflate.total_in() - before.0) as usize,
                    produced: (inflate.total_out() - before.1) as usize,
                    ended: status == Status::StreamEnd,
                })
            }
            Inner::Xz(stream) => {
                let before = (stream.total_in(), stream.total_out());
                let action = if is_last { Action::Finish } else { Action::Run };
                let status =
                    stream
                        .process(input, output, action)
                        .map_err(|error| match error {
                            liblzma::stream::Error::MemLimit | liblzma::stream::Error::Mem => {
                                too_much(self.packing, self.limits)
                            }
                            _ => damaged,
                        })?;
                Ok(Step {
                    consumed: (stream.total_in() - before.0) as usize,
                    produced: (stream.total_out() - before.1) as usize,
                    ended: matches!(status, liblzma::stream::Status::StreamEnd),
                })
            }
            Inner::Zstd(context) => {
                let mut from = InBuffer::around(input);
                let mut to = OutBuffer::around(output);
                let left =
                    context
                        .decompress_stream(&mut to, &mut from)
                        .map_err(|code| match code.wrapping_neg() {
                            code if is(
                                code,
                                ZSTD_ErrorCode::ZSTD_error_frameParameter_windowTooLarge,
                            ) || is(code, ZSTD_ErrorCode::ZSTD_error_memory_allocation) =>
                            {
                                too_much(self.packing, self.limits)
                            }
                            _ => damaged,
                        })?;
                Ok(Step {
                    consumed: from.pos(),
                    produced: to.pos(),
                    ended: left == 0,
                })
            }
        }
    }
}

fn is(code: usize, error: ZSTD_ErrorCode) -> bool {
    code == error as usize
}

fn too_much(packing: Packing, limits: Limits) -> Refusal {
    Refusal::PackingWindow {
        packing,
        limit_mib: limits.memory >> 20,
    }
}
