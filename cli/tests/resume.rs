//! An import killed without warning, and gone on with.

// Clippy knows tests, not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const SIZE: usize = 200 << 20;

/// A server that gives only so many bytes, and then nothing until it may give
/// more.
#[derive(Clone)]
struct Ration(Arc<(Mutex<u64>, Condvar)>);

impl Ration {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(0), Condvar::new())))
    }

    fn give(&self, bytes: u64) {
        *self.0.0.lock().unwrap() += bytes;
        self.0.1.notify_all();
    }

    /// Waits until something is given or taken, or a while has passed.
    fn wait(&self, most: Duration) {
        let left = self.0.0.lock().unwrap();
        drop(self.0.1.wait_timeout(left, most).unwrap());
    }

    fn take(&self, bytes: u64) {
        let left = self.0.0.lock().unwrap();
        let mut left = self.0.1.wait_while(left, |left| *left < bytes).unwrap();
        *left -= bytes;
    }
}

fn answer(
    stream: TcpStream,
    content: &[u8],
    ration: &Ration,
    sent: &AtomicU64,
) -> std::io::Result<()> {
    let mut read = BufReader::new(stream.try_clone()?);
    let mut write = stream;
    loop {
        let mut range = (0, content.len() - 1);
        loop {
            let mut line = String::new();
            if read.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            if let Some(found) = line.to_lowercase().strip_prefix("range: bytes=") {
                let (first, last) = found.trim().split_once('-').unwrap();
                range = (
                    first.parse().unwrap(),
                    last.parse::<usize>().unwrap().min(content.len() - 1),
                );
            }
        }
        let body = &content[range.0..=range.1];
        write!(
            write,
            "HTTP/1.1 206 X\r\nETag: \"v\"\r\nContent-Length: {}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
            body.len(),
            range.0,
            range.1,
            content.len()
        )?;
        for part in body.chunks(64 << 10) {
            ration.take(part.len() as u64);
            write.write_all(part)?;
            sent.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
    }
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("hypercloud-storage/imports")).map_or(0, Iterator::count)
}

/// How much of the disk the checkpoint has; 0 where there is none.
fn done(folder: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(folder.join("hypercloud-storage/imports")) else {
        return 0;
    };
    let kept = files.flatten().map(|file| file.path());
    kept.filter(|path| path.extension().is_some_and(|end| end == "json"))
        .filter_map(|path| std::fs::read(path).ok())
        .filter_map(|text| serde_json::from_slice::<serde_json::Value>(&text).ok())
        .filter_map(|checkpoint| checkpoint["progress"]["done"].as_u64())
        .max()
        .unwrap_or(0)
}

#[test]
fn an_import_killed_in_the_middle_goes_on_and_repeats_little() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let content: Arc<Vec<u8>> = Arc::new(
        (0..SIZE as u64 / 8)
            .flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
            .collect(),
    );
    let (ration, sent) = (Ration::new(), Arc::new(AtomicU64::new(0)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/image", listener.local_addr().unwrap());
    {
        let (content, ration, sent) = (Arc::clone(&content), ration.clone(), Arc::clone(&sent));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (content, ration, sent) =
                    (Arc::clone(&content), ration.clone(), Arc::clone(&sent));
                std::thread::spawn(move || answer(stream, &content, &ration, &sent));
            }
        });
    }
    let target = directory.path().join("disk.img");
    let sum: String = {
        use sha2::{Digest, Sha256};
        let digest = Sha256::digest(content.as_slice());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hcs"));
        command
            .args(["image", "import", &url, target.to_str().unwrap()])
            .args(["--resume", "--checksum", &format!("sha256:{sum}")])
            .env("XDG_STATE_HOME", &state)
            .stdout(Stdio::null());
        command
    };

    // Killed each time the server has nothing more to give and a checkpoint
    // is there that is further than the one before.
    for round in 0..2 {
        ration.give(90 << 20);
        let least = done(&state) + (12 << 20);
        let mut child = command().spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let before = (round + 1) * (88 << 20);
        while done(&state) < least || sent.load(Ordering::Relaxed) < before {
            assert!(Instant::now() < deadline, "no checkpoint");
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            ration.wait(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!target.exists(), "half a disk does not look like one");
    }
    ration.give(4 * SIZE as u64);
    let output = command().output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        std::fs::read(&target).unwrap() == *content,
        "the bytes differ"
    );
    assert_eq!(files(&state), 0, "nothing is kept of what is done");
    // What the sockets held when it was killed was sent as well.
    let repeated = sent.load(Ordering::Relaxed).saturating_sub(SIZE as u64);
    assert!(repeated <= 2 * (80 << 20), "{repeated} bytes came twice");
}
