//! Sources: where image bytes come from.
//!
//! A source is opened by reading its first bytes, which tells all there is to
//! know of it; then stretches of it are read, several at once where the
//! source can.

pub(crate) mod address;
pub(crate) mod client;
mod file;
mod http;
mod proxy;
pub(crate) mod retry;
mod stream;
pub(crate) mod unpack;

pub(crate) use client::{cause, shown};
pub(crate) use file::validator;
pub(crate) use http::{Refusal, Sign};

use std::sync::Arc;

use bytes::Bytes;
use hypercloud_disk::Extent;

use crate::buffer::Buffer;
use crate::digest::Tap;
use crate::error::SourceError;
use crate::object_store::Signer;
use crate::options::Options;
use crate::request::{HttpAccess, SourceSpec};

/// How many first bytes are read when a source is opened. Enough for every
/// header, and for most L1 tables as well.
const HEAD: u64 = 64 << 10;

/// What opening a source told.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    /// The first bytes: [`HEAD`] of them, or all of a shorter source.
    pub(crate) head: Bytes,
    pub(crate) size: Option<u64>,
    pub(crate) validator: Option<String>,
    pub(crate) ranges: bool,
    /// The server calls it HTML.
    pub(crate) is_called_html: bool,
}

/// An open source.
pub(crate) enum Source {
    File(file::FileReader),
    Http(http::HttpReader),
    Stream(Box<stream::StreamReader>),
}

impl Source {
    /// Opens a source.
    pub(crate) async fn open(
        spec: &SourceSpec,
        options: &Options,
    ) -> Result<(Self, Opened), SourceError> {
        match spec {
            SourceSpec::File(path) => {
                let (reader, opened) = file::FileReader::open(path.clone()).await?;
                Ok((Self::File(reader), opened))
            }
            SourceSpec::ObjectStore(object) => {
                let signer = Arc::new(Signer::new(object, options).await?);
                let access = HttpAccess {
                    authorities: object.store.authorities.clone(),
                    ..HttpAccess::default()
                };
                let address = http::Address::Signed(signer.clone());
                let (source, opened) = Self::over_http(address, &access, options).await?;
                signer.judge_head(&opened.head)?;
                Ok((source, opened))
            }
            SourceSpec::Http(spec) => {
                let address = http::Address::Fixed(spec.url.clone());
                Self::over_http(address, &spec.access, options).await
            }
        }
    }

    /// Opens what an HTTP server has: by ranges where it can, as a stream
    /// otherwise.
    async fn over_http(
        address: http::Address,
        access: &HttpAccess,
        options: &Options,
    ) -> Result<(Self, Opened), SourceError> {
        let (reader, opened) = http::HttpReader::open(address, access, options).await?;
        if opened.ranges {
            Ok((Self::Http(reader), opened))
        } else {
            let stream = stream::StreamReader::new(reader);
            Ok((Self::Stream(Box::new(stream)), opened))
        }
    }

    /// Fills the beginning of `buffer`, which is at least as long, with the
    /// bytes at `place`, and gives it back.
    ///
    /// A source that is a stream must be asked in order, and is told of the
    /// order by the order of the calls, not by that of the first polls.
    pub(crate) fn read(
        &self,
        place: Extent,
        buffer: Buffer,
    ) -> impl Future<Output = Result<Buffer, SourceError>> + Send + use<> {
        enum Asked {
            Stream(stream::Answer),
            File(file::FileReader, Buffer),
            Http(http::HttpReader, Buffer),
        }
        let asked = match self {
            Self::Stream(stream) => Asked::Stream(stream.ask(place, buffer)),
            Self::File(file) => Asked::File(file.clone(), buffer),
            Self::Http(http) => Asked::Http(http.clone(), buffer),
        };
        async move {
            match asked {
                Asked::Stream(answer) => answer.wait_for(place).await,
                Asked::File(file, buffer) => file.read(place, buffer).await,
                Asked::Http(http, mut buffer) => {
                    let length = usize::try_from(place.length).unwrap_or(usize::MAX);
                    http.read(place, buffer.get_mut(..length).unwrap_or_default())
                        .await?;
                    Ok(buffer)
                }
            }
        }
    }

    /// The same for the end of a stream whose length is not known: gives as
    /// many bytes as there are, none behind its end.
    pub(crate) async fn read_up_to(
        &self,
        place: Extent,
        buffer: Buffer,
    ) -> Result<unpack::Part, SourceError> {
        match self {
            Self::Stream(stream) => stream.ask(place, buffer).wait().await,
            Self::File(_) | Self::Http(_) => {
                let length = usize::try_from(place.length).unwrap_or(usize::MAX);
                let buffer = self.read(place, buffer).await?;
                Ok(unpack::Part::new(buffer, length))
            }
        }
    }

    /// The same source, read from its beginning as often as it takes; `None`
    /// for one that can be read anywhere, or could change between two passes.
    pub(crate) fn rewinding(&self) -> Option<Self> {
        match self {
            Self::Stream(stream) => stream.rewinding().map(Box::new).map(Self::Stream),
            Self::File(_) | Self::Http(_) => None,
        }
    }

    /// Has a stream take the digest of what it reads. Before the first read.
    pub(crate) fn tapped(self, tap: Arc<Tap>) -> Self {
        match self {
            Self::Stream(stream) => Self::Stream(Box::new(stream.tapped(tap))),
            other => other,
        }
    }

    /// Who takes the digest of what is read, where the source sees to that
    /// itself.
    pub(crate) fn tap(&self) -> Option<&Arc<Tap>> {
        match (self, self.packed()) {
            (_, Some(packed)) => packed.tap(),
            (Self::Stream(stream), None) => stream.origin().tap(),
            (Self::File(_) | Self::Http(_), None) => None,
        }
    }

    /// Reads what is left of a source that has something to say of the whole:
    /// a packed one is checked at its end, and so is a digest. There may be
    /// `most` bytes of it.
    ///
    /// # Errors
    /// [`hypercloud_disk::Refusal::Endless`] where there are more.
    pub(crate) async fn drain(&self, most: u64) -> Result<(), SourceError> {
        match self {
            Self::Stream(stream) if self.packed().is_some() || self.tap().is_some() => {
                stream.drain(most).wait().await.map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// The source in which this one is packed.
    pub(crate) fn packed(&self) -> Option<&Arc<unpack::Packed>> {
        match self {
            Self::Stream(stream) => match stream.origin() {
                stream::Origin::Packed(packed) => Some(packed),
                stream::Origin::Http(..) => None,
            },
            Self::File(_) | Self::Http(_) => None,
        }
    }

    /// Bytes received so far, repeats included.
    pub(crate) fn received(&self) -> u64 {
        match self {
            Self::File(file) => file.received(),
            Self::Http(http) => http.received(),
            Self::Stream(stream) => stream.received(),
        }
    }

    /// Its length, where it is known and any stretch of it can be read.
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Self::File(file) => Some(file.size()),
            Self::Http(http) => http.size(),
            Self::Stream(_) => None,
        }
    }

    /// How many reads are worth being under way at once. It may change as
    /// the source shows what it gives.
    pub(crate) fn reads(&self, options: &Options) -> usize {
        match self {
            Self::Http(http) => http.connections(),
            Self::File(_) | Self::Stream(_) => options.connections.max(1),
        }
    }

    /// The image that is packed in `packed`, of which `first` was read and
    /// `rest` follows. It is a stream.
    pub(crate) fn unpacked(
        packed: Arc<unpack::Packed>,
        options: &Options,
        first: Option<unpack::Part>,
        rest: unpack::Plain,
    ) -> Self {
        let stream = stream::StreamReader::unpacked(packed, options.clone(), first, rest);
        Self::Stream(Box::new(stream))
    }

    /// Whether stretches have to be asked for in order.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Judges, after the last read, whether the source stayed what it was,
    /// where the reads themselves do not tell.
    pub(crate) async fn judge_unchanged(&self) -> Result<(), SourceError> {
        match self {
            Self::File(file) => file.judge_unchanged().await,
            Self::Http(_) => Ok(()),
            Self::Stream(_) => match self.packed() {
                // A source within a source: its type would be without end.
                Some(packed) => Box::pin(packed.source().judge_unchanged()).await,
                None => Ok(()),
            },
        }
    }
}
