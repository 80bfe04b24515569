//! One import, from its request to the finished disk.
//!
//! Most sources are planned and go through [`Pipeline`]. A disk that is packed
//! as it is has no plan: see [`unpacked`]. An image that is a
//! stream, for want of ranges or because it is packed, is planned for one
//! pass; where its layout turns out not to allow that, it is planned anew for
//! as many as it takes.

mod unpacked;

use std::sync::Arc;

use hypercloud_disk::detect::{HEAD, detect, judge_disk};
use hypercloud_disk::plan::{self, Access, Plan, raw_virtual_size};
use hypercloud_disk::qcow2::{Header, L1Builder, L1Table};
use hypercloud_disk::{ImageFormat, Packing, Refusal};
use tokio_util::sync::CancellationToken;

use self::unpacked::Inside;
use crate::buffer::Memory;
use crate::checkpoint::Checkpoint;
use crate::checksum::Checksum;
use crate::digest::Tap;
use crate::error::{SourceError, TargetError, TransferError};
use crate::observer::{Observer, Progress};
use crate::options::Options;
use crate::pipeline::{Mark, Pipeline, Position};
use crate::request::{ImportRequest, Imported, SourceFacts, SourceSpec, TargetSpec};
use crate::sink::{Needs, Target};
use crate::source::{Opened, Source};

/// A source that was found good.
struct Judged {
    facts: SourceFacts,
    /// Of a qcow2 image.
    header: Option<Header>,
}

/// Where a source is, for messages.
fn location(source: &SourceSpec) -> String {
    match source {
        SourceSpec::Http(http) => crate::source::shown(&http.url),
        SourceSpec::ObjectStore(object) => format!("s3://{}/{}", object.bucket, object.key),
        SourceSpec::File(path) => path.display().to_string(),
    }
}

fn judge(spec: &SourceSpec, opened: &Opened) -> Result<Judged, TransferError> {
    let head = opened
        .head
        .get(..HEAD.min(opened.head.len()))
        .unwrap_or_default();
    let format = detect(head)?;
    let (virtual_size, header) = match format {
        ImageFormat::Raw if opened.is_called_html => return Err(Refusal::WebPage.into()),
        ImageFormat::Raw => {
            let size = opened
                .size
                .ok_or_else(|| SourceError::LengthUnknown(location(spec)))?;
            (raw_virtual_size(size)?, None)
        }
        ImageFormat::Qcow2 => {
            let mut header = Header::parse(&opened.head, opened.size)?;
            if opened.size.is_none() {
                let end = furthest(header.virtual_size());
                header = Header::parse(&opened.head, Some(end))?;
            }
            (header.virtual_size(), Some(header))
        }
    };
    let facts = SourceFacts {
        format,
        packing: None,
        virtual_size: Some(virtual_size),
        source_size: opened.size,
        validator: opened.validator.clone(),
        ranges: opened.ranges,
    };
    Ok(Judged { facts, header })
}

/// How far into an image of unknown length anything may lie, beside a multiple
/// of its disk's size: reading through an endless run of zeros is what somebody
/// might want of us.
const SLACK: u64 = 1 << 30;

/// Where an image ends at the latest. Snapshots can make one larger than its
/// disk.
fn furthest(virtual_size: u64) -> u64 {
    virtual_size.saturating_mul(16).saturating_add(SLACK)
}

/// Judges an image that is packed: what is told of the source is told of the
/// packed one.
fn judge_inside(
    spec: &SourceSpec,
    inner: &Opened,
    outer: &Opened,
    packing: Packing,
) -> Result<Judged, TransferError> {
    let mut judged = judge(spec, inner)?;
    judged.facts.packing = Some(packing);
    judged.facts.source_size = outer.size;
    Ok(judged)
}

/// See [`crate::probe`].
pub(crate) async fn probe(
    spec: &SourceSpec,
    options: &Options,
) -> Result<SourceFacts, TransferError> {
    let (source, opened) = Source::open(spec, options).await?;
    let Some(packing) = Packing::detect(&opened.head) else {
        return Ok(judge(spec, &opened)?.facts);
    };
    match unpacked::open(source, &opened, packing, location(spec), options, None).await? {
        Inside::Image(_, inner) => Ok(judge_inside(spec, &inner, &opened, packing)?.facts),
        Inside::Disk(disk) if options.measure && disk.facts.virtual_size.is_none() => {
            disk.measure(options.measure_limit).await
        }
        Inside::Disk(disk) => Ok(disk.facts),
    }
}

/// Whether the source is still the one that was probed.
fn is_expected(found: &SourceFacts, expected: &SourceFacts) -> bool {
    let same_validator = found.validator == expected.validator
        || found.validator.is_none()
        || expected.validator.is_none();
    // The size of a packed disk is judged at its end.
    let same_size = found.virtual_size == expected.virtual_size
        || found.virtual_size.is_none()
        || expected.virtual_size.is_none();
    same_validator
        && same_size
        && found.format == expected.format
        && found.source_size == expected.source_size
}

/// Judges whether the source is what the request says.
fn judge_request(request: &ImportRequest, facts: &SourceFacts) -> Result<(), TransferError> {
    if let Some(declared) = request.format.filter(|format| *format != facts.format) {
        return Err(TransferError::FormatMismatch {
            declared,
            found: facts.format,
        });
    }
    if request
        .expected
        .as_ref()
        .is_some_and(|expected| !is_expected(facts, expected))
    {
        return Err(SourceError::SourceChanged(location(&request.source)).into());
    }
    Ok(())
}

/// The source opened, judged and planned.
enum Prepared {
    Planned {
        source: Source,
        facts: SourceFacts,
        plan: Plan,
        memory: Arc<Memory>,
    },
    Sequential(unpacked::Disk),
}

async fn prepare(request: &ImportRequest, options: &Options) -> Result<Prepared, TransferError> {
    let spec = &request.source;
    let (source, opened) = Source::open(spec, options).await?;
    let (source, opened, judged, budget) = match Packing::detect(&opened.head) {
        None => {
            let judged = judge(spec, &opened)?;
            let source = match tap(request) {
                Some(tap) => source.tapped(tap),
                None => source,
            };
            (source, opened, judged, options.memory_budget)
        }
        Some(packing) => {
            let tap = tap(request);
            match unpacked::open(source, &opened, packing, location(spec), options, tap).await? {
                Inside::Image(source, inner) => {
                    let judged = judge_inside(spec, &inner, &opened, packing)?;
                    let rest = source
                        .packed()
                        .map_or(options.memory_budget, |packed| packed.shares().rest);
                    (source, inner, judged, rest)
                }
                Inside::Disk(mut disk) => {
                    judge_request(request, &disk.facts)?;
                    let said = request
                        .expected
                        .as_ref()
                        .and_then(|facts| facts.virtual_size);
                    disk.facts.virtual_size = disk.facts.virtual_size.or(said);
                    return Ok(Prepared::Sequential(disk));
                }
            }
        }
    };
    let Judged { facts, header } = judged;
    judge_request(request, &facts)?;
    let memory = Memory::new(budget);
    let plan = match header {
        None => Plan::raw(opened.size.unwrap_or_default())?,
        Some(header) => {
            let l1 = read_l1(&source, &opened, &header, &memory).await?;
            let access = if source.is_stream() {
                Access::Stream
            } else {
                Access::Ranges
            };
            Plan::qcow2(header, l1, access)
        }
    };
    Ok(Prepared::Planned {
        source,
        facts,
        plan,
        memory,
    })
}

/// A digest from the beginning, where the request asks for one.
fn tap(request: &ImportRequest) -> Option<Arc<Tap>> {
    let checksum = request.checksum.as_ref()?;
    Some(Arc::new(Tap::new(checksum.algorithm(), None)))
}

async fn read_l1(
    source: &Source,
    opened: &Opened,
    header: &Header,
    memory: &Arc<Memory>,
) -> Result<L1Table, TransferError> {
    let place = header.l1_place();
    let (start, length) = (place.start as usize, place.length as usize);
    if let Some(bytes) = opened.head.get(start..).and_then(|rest| rest.get(..length)) {
        return Ok(L1Table::parse(header, bytes)?);
    }
    let mut builder = L1Builder::new(header);
    while let Some(part) = builder.wanted() {
        let buffer = memory.take(part.length as usize).await;
        let buffer = source.read(part, buffer).await?;
        builder.accept(&buffer)?;
    }
    Ok(builder.finish()?)
}

/// Runs what blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TransferError> + Send + 'static,
) -> Result<T, TransferError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or(Err(TransferError::Worker))
}

/// See [`crate::import`].
pub(crate) async fn import(
    request: ImportRequest,
    options: &Options,
    observer: Arc<dyn Observer>,
    cancel: CancellationToken,
) -> Result<Imported, TransferError> {
    let prepared = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(TransferError::Cancelled),
        prepared = prepare(&request, options) => prepared?,
    };
    let (source, facts, plan, memory) = match prepared {
        Prepared::Planned {
            source,
            facts,
            plan,
            memory,
        } => (source, facts, plan, memory),
        Prepared::Sequential(disk) => {
            return disk.import(request, options, observer, cancel).await;
        }
    };
    observer.facts(&facts);

    let needs = Needs {
        size: plan.virtual_size(),
        alignment: plan.alignment(),
        preallocation: request.preallocation,
    };
    let resumable = facts.ranges && facts.validator.is_some() && facts.packing.is_none();
    let resume = request.resume.filter(|checkpoint| {
        resumable && checkpoint.layout == plan::LAYOUT && checkpoint.is_of(&facts)
    });
    let (target, resume) = open_target(request.target, needs, options, resume).await?;
    tracing::info!(
        format = %facts.format,
        virtual_size = plan.virtual_size(),
        resumed = resume.is_some(),
        "import begins"
    );

    let start = resume
        .as_ref()
        .map_or(Position { window: 0, item: 0 }, |checkpoint| Position {
            window: checkpoint.window,
            item: checkpoint.items,
        });
    let tap = request.checksum.as_ref().map(|checksum| {
        let mark = resume
            .as_ref()
            .and_then(|checkpoint| checkpoint.digest.as_ref());
        Arc::new(Tap::new(checksum.algorithm(), mark))
    });
    let before = resume.map_or(Progress::default(), |checkpoint| checkpoint.progress);
    // What an image unpacks to is told by nobody.
    let most = facts
        .source_size
        .filter(|_| facts.packing.is_none())
        .unwrap_or_else(|| furthest(plan.virtual_size()));
    let packed = source.packed().cloned();
    // A stream feeds its own.
    let fed = source.tap().cloned();
    let tap = fed.clone().or(tap);
    let mut pipeline = Pipeline {
        source: Arc::new(source),
        plan: Arc::new(plan),
        disk: Arc::clone(&target.disk),
        capacity: target.capacity,
        memory,
        observer: Arc::clone(&observer),
        options: options.clone(),
        mark: resumable.then(|| mark(facts.clone(), needs.size, target.identity, tap.clone())),
        tap: tap.clone().filter(|_| fed.is_none()),
    };
    let mut result = pipeline.run(start, before, &cancel).await;
    if let Err(TransferError::Source(SourceError::RangesRequired(_))) = &result
        && let Some(source) = pipeline.source.rewinding()
    {
        tracing::info!("the image is not in the order of its disk: reading it several times");
        pipeline = Pipeline {
            source: Arc::new(source),
            plan: Arc::new(Arc::unwrap_or_clone(pipeline.plan).for_access(Access::Ranges)),
            ..pipeline
        };
        let start = Position { window: 0, item: 0 };
        result = pipeline.run(start, Progress::default(), &cancel).await;
    }
    let result = match result {
        Ok(progress) => Verification {
            source: &pipeline.source,
            most,
            tap: tap.as_ref(),
            expected: request.checksum.as_ref(),
        }
        .verify(&target, &*observer, &cancel)
        .await
        .map(|()| progress),
        Err(error) => Err(error),
    };
    drop(pipeline);
    if let Some(packed) = packed {
        packed.ended().await;
    }
    finish(target, result, options, &*observer)
        .await
        .map(|progress| Imported {
            facts,
            progress,
            digest: tap.and_then(|tap| tap.checksum()),
        })
}

async fn open_target(
    spec: TargetSpec,
    needs: Needs,
    options: &Options,
    resume: Option<Checkpoint>,
) -> Result<(Target, Option<Checkpoint>), TransferError> {
    let options = options.clone();
    let identity = resume.as_ref().map(|checkpoint| checkpoint.target);
    let opened = blocking(move || Ok(Target::open(&spec, needs, &options, identity)?)).await?;
    let (target, is_the_one) = opened;
    Ok((target, resume.filter(|_| is_the_one)))
}

fn mark(facts: SourceFacts, virtual_size: u64, target: u64, tap: Option<Arc<Tap>>) -> Mark {
    Arc::new(move |position, progress| Checkpoint {
        layout: plan::LAYOUT,
        format: facts.format,
        virtual_size,
        source_size: facts.source_size,
        validator: facts.validator.clone(),
        target,
        window: position.window,
        items: position.item,
        progress,
        digest: tap.as_ref().map(|tap| tap.mark()),
    })
}

/// What a source has to be found to be, once its disk is written.
struct Verification<'a> {
    source: &'a Source,
    /// How many bytes of it there may be.
    most: u64,
    tap: Option<&'a Arc<Tap>>,
    expected: Option<&'a Checksum>,
}

impl Verification<'_> {
    /// Judges what was read, flushes the disk and judges what it now begins
    /// with.
    async fn verify(
        self,
        target: &Target,
        observer: &dyn Observer,
        cancel: &CancellationToken,
    ) -> Result<(), TransferError> {
        observer.verifying();
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(TransferError::Cancelled),
            drained = self.source.drain(self.most) => drained?,
        }
        self.source.judge_unchanged().await?;
        let found = self.tap.and_then(|tap| tap.checksum());
        if let (Some(expected), Some(found)) = (self.expected, found)
            && *expected != found
        {
            return Err(TransferError::ChecksumMismatch {
                expected: expected.clone(),
                found,
            });
        }
        let disk = Arc::clone(&target.disk);
        blocking(move || {
            disk.flush()?;
            Ok(judge_disk(&disk.head(HEAD)?)?)
        })
        .await
    }
}

/// Completes the target, or leaves it as the error asks.
async fn finish(
    target: Target,
    result: Result<Progress, TransferError>,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Progress, TransferError> {
    let options = options.clone();
    let progress = blocking(move || match result {
        Ok(progress) => match target.complete() {
            Ok(()) => Ok(progress),
            Err(error) => Err(abandon(target, error, &options)),
        },
        Err(error) => {
            target.abandon(&error, &options);
            Err(error)
        }
    })
    .await?;
    observer.progress(progress);
    Ok(progress)
}

fn abandon(target: Target, error: TargetError, options: &Options) -> TransferError {
    let error = TransferError::from(error);
    target.abandon(&error, options);
    error
}
