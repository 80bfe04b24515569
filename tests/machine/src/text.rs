//! A console's bytes as plain text: no control characters, no escape
//! sequences, so that a transcript cannot do anything to who reads it.

/// Keeps what is text of a stream of bytes that comes in pieces.
#[derive(Debug, Default)]
pub struct Cleaner {
    state: State,
    /// The beginning of a character that is not whole yet.
    partial: Vec<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// In `ESC [ ...`, up to a letter.
    Control,
    /// In `ESC ] ...`, up to BEL or ESC \.
    Command,
}

impl Cleaner {
    /// The text in the next bytes.
    pub fn clean(&mut self, bytes: &[u8]) -> String {
        let mut kept = std::mem::take(&mut self.partial);
        for byte in bytes {
            self.state = match (self.state, byte) {
                (_, 0x1b) => State::Escape,
                (State::Text, b'\n' | b'\t' | b' '..=0x7e | 0x80..) => {
                    kept.push(*byte);
                    State::Text
                }
                (State::Escape, b'[') => State::Control,
                (State::Escape, b']') => State::Command,
                (State::Control, 0x40..=0x7e) | (State::Command, 0x07) => State::Text,
                (State::Control | State::Command, _) => self.state,
                (State::Text | State::Escape, _) => State::Text,
            };
        }
        self.partial = kept.split_off(whole(&kept));
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// Bytes before a character that may only have begun.
fn whole(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_dropped_however_they_are_cut() {
        let bytes =
            b"\x1b[2J\x1b[01;01H\x1b[?2004hroot@demo:~# \x1b]0;title\x07ls\r\n\x1bcdone\x08\n";
        let whole = Cleaner::default().clean(bytes);
        assert_eq!(whole, "root@demo:~# ls\ndone\n");
        let mut cleaner = Cleaner::default();
        let pieces: String = bytes.iter().map(|byte| cleaner.clean(&[*byte])).collect();
        assert_eq!(pieces, whole);
    }

    #[test]
    fn characters_of_several_bytes_stay_whole() {
        let mut cleaner = Cleaner::default();
        let text = "grün\n";
        let pieces: String = text.bytes().map(|byte| cleaner.clean(&[byte])).collect();
        assert_eq!(pieces, text);
        assert_eq!(cleaner.clean(b"\xff\n"), "\u{fffd}\n");
    }
}
