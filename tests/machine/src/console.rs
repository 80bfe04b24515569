//! A serial console: what it says goes to the transcript as it comes, and is
//! looked at until a deadline.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::dialogue::{Found, trouble};
use crate::failure::Ending;
use crate::text::Cleaner;

/// A console and its transcript.
pub struct Console<T> {
    received: Receiver<Vec<u8>>,
    cleaner: Cleaner,
    /// What was said since what was waited for last.
    unread: String,
    transcript: T,
}

impl<T: Write> Console<T> {
    /// Listens to `output` from now on.
    pub fn new(mut output: impl Read + Send + 'static, transcript: T) -> Self {
        let (sender, received) = channel();
        // It ends with the console, or with whoever listened to it.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            received,
            cleaner: Cleaner::default(),
            unread: String::new(),
            transcript,
        }
    }

    /// Listens until `look` finds something in what was not looked through
    /// yet, for `limit` at most. What stands behind it is left for the next
    /// call.
    pub fn wait<F>(
        &mut self,
        limit: Duration,
        look: impl Fn(&str) -> Option<Found<F>>,
    ) -> Result<F, Ending> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(found) = look(&self.unread) {
                self.unread.drain(..found.end);
                return Ok(found.meaning);
            }
            if let Some(meaning) = trouble(&self.unread) {
                return Err(Ending::Trouble(meaning));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.received.recv_timeout(left) {
                Ok(bytes) => {
                    let text = self.cleaner.clean(&bytes);
                    self.unread.push_str(&text);
                    self.write(&text)?;
                }
                Err(RecvTimeoutError::Timeout) => return Err(Ending::Late(limit)),
                Err(RecvTimeoutError::Disconnected) => return Err(Ending::Off),
            }
        }
    }

    /// Listens until the console is gone, for `limit` at most.
    pub fn wait_for_end(&mut self, limit: Duration) -> Result<(), Ending> {
        match self.wait(limit, |_| None::<Found<Infallible>>) {
            Ok(never) => match never {},
            Err(Ending::Off) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Writes into the transcript.
    pub fn write(&mut self, text: &str) -> Result<(), Ending> {
        let written = self.transcript.write_all(text.as_bytes());
        written
            .and_then(|()| self.transcript.flush())
            .map_err(|error| Ending::Transcript(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::login_prompt;

    const LIMIT: Duration = Duration::from_secs(60);

    fn console(output: &'static [u8]) -> Console<Vec<u8>> {
        Console::new(output, Vec::new())
    }

    #[test]
    fn what_stands_behind_is_left_for_the_next_look() {
        let mut console = console(b"demo login: \r\nmore login: \r\n");
        assert_eq!(console.wait(LIMIT, login_prompt), Ok(()));
        assert_eq!(console.wait(LIMIT, login_prompt), Ok(()));
        assert_eq!(console.wait(LIMIT, login_prompt), Err(Ending::Off));
        assert_eq!(console.transcript, b"demo login: \nmore login: \n");
    }

    #[test]
    fn silence_ends_at_the_deadline() {
        let (silent, _kept) = std::io::pipe().unwrap();
        let mut console = Console::new(silent, Vec::new());
        let limit = Duration::from_millis(10);
        assert_eq!(console.wait(limit, login_prompt), Err(Ending::Late(limit)));
        assert_eq!(console.wait_for_end(limit), Err(Ending::Late(limit)));
    }

    #[test]
    fn trouble_ends_the_waiting_at_once() {
        let mut console = console(b"No bootable device.\r\n");
        let ending = console.wait(LIMIT, login_prompt);
        assert!(matches!(ending, Err(Ending::Trouble(_))), "{ending:?}");
    }
}
