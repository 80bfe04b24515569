//! Servers that are slow, or ask for patience.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hypercloud_transfer::{Options, probe};

use crate::image::{assert_same, disk};
use crate::misbehave::fetch_with;
use crate::server::{Reply, Server};
use crate::watch::{http, impatient, options};

#[tokio::test]
async fn a_trickle_is_given_up_like_a_stall() {
    let bytes = disk(50, 6 << 20);
    let content = bytes.clone();
    // Never silent for as long as a stall is, and never done either.
    let drip = Some((100, Duration::from_millis(50)));
    let server = Server::start(move |request| Reply {
        drip: drip.filter(|_| request.number == 2),
        ..Reply::tagged(request, &content)
    })
    .await;
    let found = fetch_with(&server, "/image", &impatient()).await;
    assert_same(&found.unwrap(), &bytes, "trickle");
}

#[tokio::test]
async fn the_pause_that_a_server_asks_for_is_made() {
    for asked in ["1", "Sat, 21 Nov 2026 10:00:01 GMT"] {
        let times = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&times);
        let server = Server::start(move |request| {
            log.lock().unwrap().push(Instant::now());
            match request.number {
                0 => Reply::status(429)
                    .header("Date", "Sat, 21 Nov 2026 10:00:00 GMT")
                    .header("Retry-After", asked),
                _ => Reply::of(request, &[7; 512]),
            }
        })
        .await;
        let patient = Options {
            backoff_limit: Duration::from_secs(5),
            ..options()
        };
        probe(&http(&server.url("/image")), &patient).await.unwrap();
        let times = times.lock().unwrap();
        assert!(times[1] - times[0] >= Duration::from_secs(1), "{asked}");
    }
}
