//! What a server says, in the body of its answer, of why it refuses.

use bytes::BytesMut;
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode};

use super::address::{Refusal, Sign};
use super::answer::{Failure, retry_after};
use crate::options::Options;

/// How much of a refusal is read.
const LIMIT: usize = 16 << 10;

/// Lets the signer explain an answer that gives nothing of the file. `None`
/// where it gives some, leads elsewhere, or has no better reason than its
/// status.
pub(super) async fn explain(
    signer: &dyn Sign,
    options: &Options,
    response: &mut Response,
) -> Option<Failure> {
    let status = response.status();
    let gives = matches!(
        status,
        StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE
    );
    let leads = status.is_redirection() && response.headers().contains_key(LOCATION);
    if gives || leads {
        return None;
    }
    let mut body = BytesMut::new();
    // One that breaks or stalls is judged by what came.
    let _ = tokio::time::timeout(options.stall_timeout, async {
        while body.len() < LIMIT
            && let Ok(Some(chunk)) = response.chunk().await
        {
            let room = LIMIT - body.len();
            body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        }
    })
    .await;
    let refusal = Refusal {
        status,
        headers: response.headers(),
        body: &body,
    };
    let error = signer.explain(refusal)?;
    let after = retry_after(response);
    Some(Failure { error, after })
}
