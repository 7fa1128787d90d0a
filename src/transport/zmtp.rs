//! ZMTP 3.x as far as the guard reads it: the greeting and the headers of frames.

/// The greeting's length.
pub(crate) const GREETING: usize = 64;

/// Bits of a frame's first byte; all others are reserved.
pub(crate) const MORE: u8 = 0b001;
const LONG: u8 = 0b010;
const COMMAND: u8 = 0b100;
const RESERVED: u8 = !(MORE | LONG | COMMAND);

/// The length of the longest frame header: a byte of flags and eight of length.
const LONGEST_HEADER: usize = 9;

/// What a peer has to say first, and the only command that a Jupyter kernel sends: a name, preceded by its length.
pub(crate) const READY: &[u8] = b"\x05READY";

/// Whether this byte may stand at this place of the greeting: signature, version 3 or later, mechanism NULL.
pub(crate) fn greets(at: usize, byte: u8) -> bool {
    match at {
        0 => byte == 0xff,
        9 => byte == 0x7f,
        10 => byte >= 3,
        12..=31 => byte == at.checked_sub(12).and_then(|at| b"NULL".get(at)).copied().unwrap_or(0),
        _ => true,
    }
}

/// A frame's header, once it is there as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) reserved: bool,
    pub(crate) command: bool,
    pub(crate) more: bool,
    pub(crate) len: u64,
}

/// A header that comes byte by byte.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PartialHeader {
    bytes: [u8; LONGEST_HEADER],
    len: usize,
}

impl PartialHeader {
    /// What has come so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }

    /// Takes one byte; gives the header when it was the last.
    pub(crate) fn push(&mut self, byte: u8) -> Option<FrameHeader> {
        *self.bytes.get_mut(self.len)? = byte;
        self.len = self.len.saturating_add(1);
        let (flags, len) = match *self.bytes() {
            [flags, len] if flags & LONG == 0 => (flags, u64::from(len)),
            [flags, a, b, c, d, e, f, g, h] => (flags, u64::from_be_bytes([a, b, c, d, e, f, g, h])),
            _ => return None,
        };
        Some(FrameHeader {
            reserved: flags & RESERVED != 0,
            command: flags & COMMAND != 0,
            more: flags & MORE != 0,
            len,
        })
    }
}
