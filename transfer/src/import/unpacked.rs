//! What is packed in a source: an image, which is imported as any that is a
//! stream, or a disk as it is, whose size often shows only at its end.

use std::sync::Arc;

use bytes::Bytes;
use hypercloud_disk::detect::{HEAD, detect};
use hypercloud_disk::plan::raw_virtual_size;
use hypercloud_disk::{ImageFormat, Packing, Refusal};
use tokio_util::sync::CancellationToken;

use super::{Verification, finish, open_target};
use crate::checksum::Checksum;
use crate::digest::Tap;
use crate::error::TransferError;
use crate::observer::{Observer, Progress};
use crate::options::Options;
use crate::pipeline::{Sequential, Supply};
use crate::request::{ImportRequest, Imported, SourceFacts};
use crate::sink::{Needs, Target};
use crate::source::unpack::{Blocks, Packed, Part, Plain};
use crate::source::{Opened, Source};

/// What a packed source holds.
pub(super) enum Inside {
    /// An image, to be read as any that is a stream.
    Image(Source, Opened),
    /// A disk as it is.
    Disk(Disk),
}

/// A packed disk, of which a part was read.
pub(super) struct Disk {
    pub(super) packed: Arc<Packed>,
    pub(super) first: Option<Part>,
    pub(super) rest: Plain,
    /// Where it is in parts that can be unpacked on their own.
    pub(super) blocks: Option<Blocks>,
    pub(super) facts: SourceFacts,
}

/// Unpacks the beginning and looks what it is.
pub(super) async fn open(
    source: Source,
    opened: &Opened,
    packing: Packing,
    location: String,
    options: &Options,
    tap: Option<Arc<Tap>>,
) -> Result<Inside, TransferError> {
    let packed = Arc::new(Packed::new(
        source,
        packing,
        opened,
        location,
        options.memory_budget,
        tap,
    ));
    let mut rest = packed.begin();
    let first = rest.next().await?;
    let head = first.as_ref().map(AsRef::as_ref).unwrap_or_default();
    if let Some(inner) = Packing::detect(head) {
        let outer = packing;
        return Err(Refusal::NestedPacking { outer, inner }.into());
    }
    match detect(head.get(..HEAD.min(head.len())).unwrap_or_default())? {
        ImageFormat::Qcow2 => {
            let inner = Opened {
                head: Bytes::copy_from_slice(head),
                size: None,
                is_called_html: false,
                ..opened.clone()
            };
            let source = Source::unpacked(packed, options, first, rest);
            Ok(Inside::Image(source, inner))
        }
        format => {
            let blocks = packed.blocks().await?;
            let plain = blocks.as_ref().map(|blocks| raw_virtual_size(blocks.plain));
            Ok(Inside::Disk(Disk {
                packed,
                first,
                rest,
                blocks,
                facts: SourceFacts {
                    format,
                    packing: Some(packing),
                    virtual_size: plain.transpose()?,
                    source_size: opened.size,
                    validator: opened.validator.clone(),
                    ranges: opened.ranges,
                },
            }))
        }
    }
}

impl Disk {
    /// Reads the disk to its end, to learn its size.
    pub(super) async fn measure(mut self, limit: u64) -> Result<SourceFacts, TransferError> {
        let first = self
            .first
            .take()
            .map_or(0, |part| part.as_ref().len() as u64);
        let size = self.rest.count(first, limit).await?;
        self.facts.virtual_size = Some(raw_virtual_size(size)?);
        Ok(self.facts)
    }

    /// Imports the disk.
    pub(super) async fn import(
        self,
        request: ImportRequest,
        options: &Options,
        observer: Arc<dyn Observer>,
        cancel: CancellationToken,
    ) -> Result<Imported, TransferError> {
        let Disk {
            packed,
            first,
            rest,
            blocks,
            mut facts,
        } = self;
        observer.facts(&facts);
        let needs = Needs {
            size: facts.virtual_size.unwrap_or_default(),
            // Parts begin at multiples of this; an end that is none is met as
            // one.
            alignment: 4096,
            // What it takes is not known without a size.
            preallocation: request.preallocation && facts.virtual_size.is_some(),
        };
        let (target, _) = open_target(request.target, needs, options, None).await?;
        let room = match facts.virtual_size {
            Some(size) => Ok(size.max(target.capacity)),
            None => target.room(options),
        };
        tracing::info!(
            format = %facts.format,
            packing = %packed.packing(),
            virtual_size = facts.virtual_size,
            "import begins"
        );
        let result = match room {
            Ok(room) => {
                let sequential = Sequential {
                    supply: Supply::new(&packed, first, rest, blocks, options),
                    packed: Arc::clone(&packed),
                    size: facts.virtual_size,
                    disk: Arc::clone(&target.disk),
                    room,
                    capacity: target.capacity,
                    observer: Arc::clone(&observer),
                    options: options.clone(),
                };
                sequential.run(&cancel).await
            }
            Err(error) => {
                // Who unpacks waits for somebody to take it.
                drop((first, rest));
                Err(error.into())
            }
        };
        let result = match result {
            Ok(progress) => {
                complete_size(
                    &packed,
                    &target,
                    request.checksum.as_ref(),
                    &*observer,
                    progress,
                    &cancel,
                )
                .await
            }
            Err(error) => Err(error),
        };
        packed.ended().await;
        let progress = finish(target, result, options, &*observer).await?;
        facts.virtual_size = Some(progress.total);
        Ok(Imported {
            facts,
            progress,
            digest: packed.tap().and_then(|tap| tap.checksum()),
        })
    }
}

/// Gives the target the size that the disk turned out to have, and verifies
/// it.
async fn complete_size(
    packed: &Packed,
    target: &Target,
    expected: Option<&Checksum>,
    observer: &dyn Observer,
    progress: Progress,
    cancel: &CancellationToken,
) -> Result<Progress, TransferError> {
    target.set_size(progress.total)?;
    let verification = Verification {
        source: packed.source(),
        // It was read to its end already.
        most: u64::MAX,
        tap: packed.tap(),
        expected,
    };
    verification.verify(target, observer, cancel).await?;
    Ok(progress)
}
