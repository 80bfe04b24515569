//! What is packed in a source.

use std::sync::Arc;

use bytes::Bytes;
use hypercloud_disk::detect::{HEAD, detect};
use hypercloud_disk::plan::raw_virtual_size;
use hypercloud_disk::{ImageFormat, Packing, Refusal};

use crate::error::TransferError;
use crate::options::Options;
use crate::request::SourceFacts;
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
) -> Result<Inside, TransferError> {
    let packed = Arc::new(Packed::new(
        source,
        packing,
        opened,
        location,
        options.memory_budget,
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
        let rest = self.rest.count(limit.saturating_sub(first)).await?;
        self.facts.virtual_size = Some(raw_virtual_size(first + rest)?);
        Ok(self.facts)
    }
}
