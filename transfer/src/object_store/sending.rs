//! A request's body in small steps, so that it shows whether it is taken.
//!
//! The SDK hands over a part of an object at once, and a slow line takes
//! minutes for it. How long a request may take is no measure then, but whether
//! any of it moves.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// What is given to the connection at once.
const STEP: usize = 64 << 10;

/// A body that counts what is taken of it.
pub(super) struct Steps<B> {
    inner: Pin<Box<B>>,
    rest: Bytes,
    taken: Arc<AtomicU64>,
}

impl<B> Steps<B> {
    pub(super) fn new(inner: B, taken: Arc<AtomicU64>) -> Self {
        Self {
            inner: Box::pin(inner),
            rest: Bytes::new(),
            taken,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for Steps<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        while self.rest.is_empty() {
            match ready!(self.inner.as_mut().poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.rest = bytes,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        let length = self.rest.len().min(STEP);
        let step = self.rest.split_to(length);
        self.taken.fetch_add(length as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(step))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let inner = self.inner.size_hint();
        let rest = self.rest.len() as u64;
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(inner.lower() + rest);
        hint
    }
}

/// Waits for an answer as long as something is taken meanwhile.
pub(super) async fn patiently<T>(
    answer: impl Future<Output = T>,
    patience: Duration,
    taken: &AtomicU64,
) -> Result<T, tokio::time::error::Elapsed> {
    let mut answer = std::pin::pin!(answer);
    let mut before = 0;
    loop {
        match tokio::time::timeout(patience, &mut answer).await {
            Ok(answer) => return Ok(answer),
            Err(elapsed) => {
                let now = taken.load(Ordering::Relaxed);
                if now == before {
                    return Err(elapsed);
                }
                before = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_takes_something_is_waited_for() {
        let taken = AtomicU64::new(0);
        let slow = async {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_secs(8)).await;
                taken.fetch_add(1, Ordering::Relaxed);
            }
            7
        };
        let answer = patiently(slow, Duration::from_secs(10), &taken).await;
        assert_eq!(answer.ok(), Some(7));
        let silent = tokio::time::sleep(Duration::from_secs(60));
        let answer = patiently(silent, Duration::from_secs(10), &AtomicU64::new(0)).await;
        assert!(answer.is_err());
    }

    #[test]
    fn a_body_comes_in_steps_and_whole() {
        let bytes: Vec<u8> = (0..200_001u32).map(|n| n as u8).collect();
        let taken = Arc::new(AtomicU64::new(0));
        let whole = reqwest::Body::from(bytes.clone());
        let mut steps = std::pin::pin!(Steps::new(whole, Arc::clone(&taken)));
        assert_eq!(steps.size_hint().exact(), Some(200_001));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut got = Vec::new();
        while let Poll::Ready(Some(frame)) = steps.as_mut().poll_frame(&mut context) {
            let step = frame.unwrap().into_data().unwrap();
            assert!(step.len() <= STEP);
            got.extend_from_slice(&step);
            assert_eq!(taken.load(Ordering::Relaxed), got.len() as u64);
            assert_eq!(steps.size_hint().exact(), Some(200_001 - got.len() as u64));
        }
        assert!(got == bytes && steps.is_end_stream());
    }
}
