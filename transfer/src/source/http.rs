//! An HTTP server as the source.
//!
//! Opened by a ranged GET of the first bytes, never by HEAD, which many
//! servers refuse or answer falsely. Redirects are followed here, so that
//! each hop's address is judged and credentials stay with their origin; where
//! they lead is remembered, and asked anew only when it stops working, as
//! signed URLs do.

mod address;
mod answer;
mod connections;
mod credentials;
mod limit;
mod redirect;
mod refusal;
mod requests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hypercloud_disk::Extent;
use reqwest::{Response, StatusCode};
use url::Url;

pub(super) use self::address::Address;
pub(crate) use self::address::{Refusal, Sign};
pub(super) use self::answer::Failure;
use self::connections::Connections;
use self::requests::{Answer, Asking, Requests};
use super::retry::Retry;
use super::{HEAD, Opened, client};
use crate::error::SourceError;
use crate::options::Options;
use crate::request::HttpAccess;

/// What comes of a stretch and is no progress.
const LITTLE: usize = 64 << 10;

/// Reads stretches of a file on an HTTP server.
#[derive(Clone)]
pub(crate) struct HttpReader(Arc<Inner>);

struct Inner {
    requests: Requests,
    options: Options,
    /// Where redirects led last.
    led: RwLock<Option<Url>>,
    size: Option<u64>,
    validator: Option<String>,
    connections: Connections,
    received: AtomicU64,
}

/// What the first answer told.
struct First {
    opened: Opened,
    /// Where redirects led.
    led: Option<Url>,
}

impl HttpReader {
    pub(super) async fn open(
        address: Address,
        access: &HttpAccess,
        options: &Options,
    ) -> Result<(Self, Opened), SourceError> {
        let requests = Requests::new(address, access, options)?;
        let mut retry = Retry::new(options);
        let mut range = Some(Extent {
            start: 0,
            length: HEAD,
        });
        let First { mut opened, led } = loop {
            match first_answer(&requests, options, range).await {
                Ok(Some(first)) => break first,
                // The server is at odds with the range: ask for the whole.
                Ok(None) => range = None,
                Err(failure) => retry.pause(failure.error, failure.after).await?,
            }
        };
        let reader = Self(Arc::new(Inner {
            led: RwLock::new(led.filter(|_| requests.leads_on())),
            requests,
            options: options.clone(),
            size: opened.size,
            validator: opened.validator.clone(),
            connections: Connections::new(options),
            received: AtomicU64::new(opened.head.len() as u64),
        }));
        reader.complete(&mut opened).await?;
        Ok((reader, opened))
    }

    /// Reads what is missing of the first bytes, where the server gave fewer
    /// than were asked for.
    async fn complete(&self, opened: &mut Opened) -> Result<(), SourceError> {
        let wanted = opened.size.map_or(0, |size| size.min(HEAD));
        let found = opened.head.len() as u64;
        if found < wanted {
            let mut head = BytesMut::from(&opened.head[..]);
            head.resize(wanted as usize, 0);
            let missing = head.get_mut(opened.head.len()..).unwrap_or_default();
            self.read(Extent::between(found, wanted), missing).await?;
            opened.head = head.freeze();
        }
        Ok(())
    }

    pub(super) fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }

    pub(super) fn size(&self) -> Option<u64> {
        self.0.size
    }

    /// How many reads are worth being under way at once.
    pub(super) fn connections(&self) -> usize {
        self.0.connections.limit()
    }

    pub(super) fn options(&self) -> &Options {
        &self.0.options
    }

    /// The address as it may be shown.
    pub(super) fn shown(&self) -> String {
        self.0.requests.shown()
    }

    pub(super) fn has_validator(&self) -> bool {
        self.0.validator.is_some()
    }

    fn led(&self) -> Option<Url> {
        self.0
            .led
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Remembers where redirects led.
    fn remember(&self, url: &Url) {
        if !self.0.requests.leads_on() || self.led().as_ref() == Some(url) {
            return;
        }
        *self.0.led.write().unwrap_or_else(PoisonError::into_inner) = Some(url.clone());
    }

    /// Forgets where redirects led, unless they lead elsewhere by now.
    fn forget(&self, expired: &Url) {
        let mut led = self.0.led.write().unwrap_or_else(PoisonError::into_inner);
        if led.as_ref() == Some(expired) {
            *led = None;
        }
    }

    /// Fills `into` with the bytes at `place`.
    pub(super) async fn read(&self, place: Extent, into: &mut [u8]) -> Result<(), SourceError> {
        let connections = &self.0.connections;
        let permit = connections.take().await;
        let result = self.read_now(place, into).await;
        connections.give_back(permit, self.received());
        result
    }

    async fn read_now(&self, place: Extent, into: &mut [u8]) -> Result<(), SourceError> {
        let mut retry = Retry::new(&self.0.options);
        let mut failed_at: Option<Url> = None;
        let mut filled = 0;
        while filled < into.len() {
            let before = filled;
            let mut led = None;
            let failed = self
                .read_once(place, into, &mut filled, &mut led)
                .await
                .err();
            // Next to nothing is no progress, or a server that resets after
            // every byte, or gives no more, would be asked for ever.
            let little = filled - before < LITTLE && filled < into.len();
            if !little {
                retry.progressed();
            }
            let Some(failure) = failed else {
                if little {
                    retry.count(SourceError::WrongRange(self.shown()))?;
                }
                continue;
            };
            self.0.connections.failed(&failure.error);
            if let Some(led) = &led
                && (failure.is_of_the_address() || failure.is_of_the_server())
            {
                self.forget(led);
            }
            // Where the address led may have expired: it is followed anew, as
            // long as it leads somewhere new.
            match led.filter(|led| failed_at.as_ref() != Some(led)) {
                Some(led) if failure.is_of_the_address() => {
                    failed_at = Some(led);
                    retry.count(failure.error)?;
                }
                _ => retry.pause(failure.error, failure.after).await?,
            }
        }
        Ok(())
    }

    /// One request for what is still missing. `filled` counts what came, even
    /// when it ends in an error; `led` becomes the URL that redirects led to.
    async fn read_once(
        &self,
        place: Extent,
        into: &mut [u8],
        filled: &mut usize,
        led: &mut Option<Url>,
    ) -> Result<(), Failure> {
        let inner = &self.0;
        let missing = Extent::between(place.start + *filled as u64, place.end());
        let asking = Asking {
            range: Some(missing),
            if_range: inner
                .validator
                .as_deref()
                .filter(|validator| validator.starts_with('"')),
        };
        led.clone_from(&self.led());
        let answer = inner.requests.ask(led.as_ref(), asking).await?;
        let Answer {
            mut response, url, ..
        } = answer;
        if answer.led {
            *led = Some(url.clone());
        }
        let length = answer::judge_part(
            &url,
            &response,
            missing,
            inner.size,
            inner.validator.as_deref(),
        )?;
        if answer.led {
            self.remember(&url);
        }
        let end = *filled
            + usize::try_from(length)
                .unwrap_or(usize::MAX)
                .min(into.len() - *filled);
        let mut pace = Pace::default();
        while let Some(chunk) = self.chunk(&mut response, &url, &mut pace).await? {
            let room = into.get_mut(*filled..end).unwrap_or_default();
            let Some(room) = room.get_mut(..chunk.len()) else {
                return Err(SourceError::WrongRange(client::shown(&url)).into());
            };
            room.copy_from_slice(&chunk);
            *filled += chunk.len();
        }
        if *filled < end {
            return Err(SourceError::WrongLength {
                location: client::shown(&url),
                expected: length,
                received: length - (end - *filled) as u64,
            }
            .into());
        }
        Ok(())
    }

    async fn chunk(
        &self,
        response: &mut Response,
        url: &Url,
        pace: &mut Pace,
    ) -> Result<Option<Bytes>, Failure> {
        let asked = Instant::now();
        let chunk = next_chunk(&self.0.requests, &self.0.options, response, url).await?;
        let count = chunk.as_ref().map_or(0, Bytes::len);
        self.0.received.fetch_add(count as u64, Ordering::Relaxed);
        if chunk.is_some() && pace.is_trickle(asked.elapsed(), count, self.0.options.stall_timeout)
        {
            return Err(SourceError::Stalled(client::shown(url)).into());
        }
        Ok(chunk)
    }

    /// The whole file from its beginning, for a server without ranges.
    pub(super) async fn begin(&self) -> Result<Body, Failure> {
        let inner = &self.0;
        let Answer { response, url, .. } = inner.requests.ask(None, Asking::WHOLE).await?;
        answer::judge_whole(&url, &response, inner.size, inner.validator.as_deref())?;
        Ok(Body {
            reader: self.clone(),
            response,
            url,
            pace: Pace::default(),
        })
    }
}

/// How fast a body comes: one that never quite stalls, and never comes to
/// anything, would hold its place for ever.
#[derive(Default)]
struct Pace {
    waited: Duration,
    came: usize,
}

impl Pace {
    /// The least that must come in twice the time that is a stall.
    const LEAST: usize = LITTLE;

    /// Counts what came after waiting for it; whether that is too little. The
    /// time in which nobody asked for more does not count.
    fn is_trickle(&mut self, waited: Duration, came: usize, stall: Duration) -> bool {
        self.waited += waited;
        self.came += came;
        if self.waited < 2 * stall {
            return false;
        }
        let little = self.came < Self::LEAST;
        *self = Self::default();
        little
    }
}

/// The body of a whole file.
pub(super) struct Body {
    reader: HttpReader,
    response: Response,
    url: Url,
    pace: Pace,
}

impl Body {
    /// The next bytes, or `None` at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        self.reader
            .chunk(&mut self.response, &self.url, &mut self.pace)
            .await
    }
}

async fn next_chunk(
    requests: &Requests,
    options: &Options,
    response: &mut Response,
    url: &Url,
) -> Result<Option<Bytes>, Failure> {
    match tokio::time::timeout(options.stall_timeout, response.chunk()).await {
        Ok(Ok(chunk)) => Ok(chunk),
        Ok(Err(error)) => Err(requests.explain(url, error).into()),
        Err(_) => Err(SourceError::Stalled(client::shown(url)).into()),
    }
}

/// Asks for the first bytes. `None` when the server cannot give that range.
async fn first_answer(
    requests: &Requests,
    options: &Options,
    range: Option<Extent>,
) -> Result<Option<First>, Failure> {
    let asking = Asking {
        range,
        ..Asking::WHOLE
    };
    let Answer {
        mut response,
        url,
        led,
    } = requests.ask(None, asking).await?;
    let told = match answer::judge_first(&url, &response)? {
        Some(told) => told,
        None if range.is_some() && response.status() == StatusCode::RANGE_NOT_SATISFIABLE => {
            return Ok(None);
        }
        None => {
            let status = response.status().as_u16();
            let location = client::shown(&url);
            return Err(SourceError::UnexpectedStatus { location, status }.into());
        }
    };
    let wanted = told.coming.map_or(HEAD, |coming| coming.min(HEAD)) as usize;
    let mut head = BytesMut::with_capacity(wanted);
    while head.len() < wanted {
        match next_chunk(requests, options, &mut response, &url).await? {
            Some(chunk) => head.extend_from_slice(&chunk),
            None => break,
        }
    }
    if told.coming.is_some() && head.len() < wanted {
        return Err(SourceError::WrongLength {
            location: client::shown(&url),
            expected: wanted as u64,
            received: head.len() as u64,
        }
        .into());
    }
    head.truncate(wanted);
    let opened = Opened {
        head: head.freeze(),
        size: told.size,
        validator: answer::validator(&response),
        ranges: told.ranges,
        is_called_html: told.is_called_html,
    };
    let led = led.then_some(url);
    Ok(Some(First { opened, led }))
}
