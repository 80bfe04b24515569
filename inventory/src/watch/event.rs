//! Events as the kernel and udev send them.
//!
//! The kernel's begins with `add@/devices/...`, udev's with `libudev` and a
//! header; in both the properties follow as `KEY=VALUE`, each ended by a zero.

/// An event of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) sender: Sender,
    /// The kernel's number of the event, which udev repeats.
    pub(super) number: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    Kernel,
    Udev,
}

const UDEV: &[u8] = b"libudev\0";

impl Event {
    /// `None` for what is no event of a block device.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let sender = if message.starts_with(UDEV) {
            Sender::Udev
        } else {
            Sender::Kernel
        };
        let value = |key: &[u8]| {
            message
                .split(|byte| *byte == 0)
                .find_map(|property| property.strip_prefix(key))
        };
        // udev's first property follows its header without a zero before it,
        // but neither of these two is the first.
        if value(b"SUBSYSTEM=")? != b"block" {
            return None;
        }
        let number =
            value(b"SEQNUM=").and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        Some(Self { sender, number })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_of_block_devices_are_told_from_others() {
        let kernel = b"add@/devices/virtual/block/loop9\0ACTION=add\0SUBSYSTEM=block\0SEQNUM=42\0";
        assert_eq!(
            Event::read(kernel),
            Some(Event {
                sender: Sender::Kernel,
                number: Some(42)
            })
        );
        let mut udev = b"libudev\0\xfe\xed\xca\xfe\x28\0\0\0\x28\0\0\0\x33\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        udev.extend(b"ACTION=change\0SUBSYSTEM=block\0SEQNUM=43\0");
        assert_eq!(
            Event::read(&udev),
            Some(Event {
                sender: Sender::Udev,
                number: Some(43)
            })
        );
        assert_eq!(Event::read(b"add@/x\0SUBSYSTEM=net\0SEQNUM=1\0"), None);
        assert_eq!(Event::read(b""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(message: Vec<u8>) {
            let _ = Event::read(&message);
        }
    }
}
