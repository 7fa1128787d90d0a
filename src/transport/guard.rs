//! The guard: what stands between a kernel's bytes and the `zeromq` crate.
//!
//! The crate reserves whatever length a frame header announces, so nine bytes from the container could end the host's
//! process, and it collects a multipart message without end. The guard reads frame headers only, and every byte from a
//! link passes it. What no honest kernel sends *cuts* the link. A frame that is merely long, which one `print` can
//! cause, is *elided*: an empty frame goes on in its place, and its bytes are thrown away as they come.

use bytes::{Buf, Bytes};

use super::zmtp::{self, FrameHeader, PartialHeader};
use crate::protocol::DELIMITER;

/// Announced lengths from here on are no mistake of an honest kernel.
const ABSURD: u64 = 1 << 34;

/// How much a kernel may send in one piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The longest routing identity or topic.
    pub(crate) identity: u64,
    /// The most identities of a message.
    pub(crate) identities: u32,
    /// The longest signature.
    pub(crate) signature: u64,
    /// The longest header and parent header.
    pub(crate) header: u64,
    /// The longest metadata.
    pub(crate) metadata: u64,
    /// The longest content or buffer that goes on.
    pub(crate) content: u64,
    /// How much of one message goes on; what comes after it is elided.
    pub(crate) message: u64,
    /// The most frames of a message.
    pub(crate) frames: u32,
    /// The longest command.
    pub(crate) command: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            identity: 1 << 10,
            identities: 8,
            signature: 1 << 10,
            header: 64 << 10,
            metadata: 1 << 20,
            content: 24 << 20,
            message: 48 << 20,
            frames: 1024,
            command: 4 << 10,
        }
    }
}

/// Why a link was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Cut {
    #[error("the kernel did not greet as ZeroMQ 3 without encryption does")]
    Greeting,
    #[error("the kernel sent a frame with reserved flags")]
    ReservedFlags,
    #[error("the kernel sent something else than READY after its greeting, or a command later")]
    Command,
    #[error("the kernel sent a command of {0} bytes")]
    LongCommand(u64),
    #[error("the kernel announced a frame of {0} bytes")]
    AbsurdLength(u64),
    #[error("the kernel sent a {part} of {len} bytes")]
    LongFrame {
        /// Which part of the message.
        part: &'static str,
        /// Its announced length.
        len: u64,
    },
    #[error("the kernel sent a message with too many routing identities")]
    TooManyIdentities,
    #[error("the kernel sent a message with too many frames")]
    TooManyFrames,
}

/// What was left out so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Elided {
    /// How many frames.
    pub(crate) frames: u64,
    /// How many bytes they announced.
    pub(crate) bytes: u64,
}

/// Checks one direction of one channel, from the greeting on. Does no I/O, and holds back a frame header at most.
#[derive(Debug)]
pub(crate) struct Guard {
    limits: Limits,
    state: State,
    ready: bool,
    message: Progress,
    elided: Elided,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Greeting { at: usize },
    Header(PartialHeader),
    Frame { left: u64, more: bool, fate: Fate },
    Cut(Cut),
}

/// What becomes of a frame's bytes.
#[derive(Debug, Clone, Copy)]
enum Fate {
    GoesOn,
    /// Goes on, and must begin as READY does.
    Ready {
        at: usize,
    },
    /// Goes on, and is the delimiter if it is the `same` to its end.
    Delimiter {
        at: usize,
        same: bool,
    },
    Elided,
}

impl Guard {
    /// For a channel of Jupyter messages.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Greeting { at: 0 },
            ready: false,
            message: Progress::default(),
            elided: Elided::default(),
        }
    }

    /// What was left out so far.
    pub(crate) fn elided(&self) -> Elided {
        self.elided
    }

    /// Checks a chunk, however the stream was divided, and appends to `out` what may go on: slices of the chunk, except
    /// for a frame header that came in pieces or whose frame is elided.
    ///
    /// After a [`Cut`] nothing more goes on; what stood before the offence still does.
    pub(crate) fn push(&mut self, chunk: Bytes, out: &mut Vec<Bytes>) -> Result<(), Cut> {
        let mut cursor = Cursor { chunk, passed: 0, out };
        let mut result = Ok(());
        while result.is_ok() && !cursor.unread().is_empty() {
            result = match self.state {
                State::Greeting { at } => self.greeting(at, &mut cursor),
                State::Header(header) => self.header(header, &mut cursor),
                State::Frame { left, more, fate } => self.frame(left, more, fate, &mut cursor),
                State::Cut(cut) => Err(cut),
            };
        }
        cursor.flush();
        if let Err(cut) = result {
            self.state = State::Cut(cut);
        }
        result
    }

    fn greeting(&mut self, mut at: usize, cursor: &mut Cursor<'_>) -> Result<(), Cut> {
        while at < zmtp::GREETING {
            let Some(byte) = cursor.unread().first() else {
                self.state = State::Greeting { at };
                return Ok(());
            };
            if !zmtp::greets(at, *byte) {
                return Err(Cut::Greeting);
            }
            cursor.pass(1);
            at = at.saturating_add(1);
        }
        self.state = State::Header(PartialHeader::default());
        Ok(())
    }

    /// Reads on in a frame's header, which goes on only when it has been judged as a whole.
    fn header(&mut self, mut header: PartialHeader, cursor: &mut Cursor<'_>) -> Result<(), Cut> {
        let in_one_piece = header.bytes().is_empty();
        let mut read = 0_usize;
        let whole = cursor.unread().iter().find_map(|byte| {
            read = read.saturating_add(1);
            header.push(*byte)
        });
        let Some(whole) = whole else {
            cursor.discard(read);
            self.state = State::Header(header);
            return Ok(());
        };
        let fate = self.judge(whole)?;
        match (fate, whole.more) {
            (Fate::Elided, true) => cursor.replace(read, Bytes::from_static(&[zmtp::MORE, 0])),
            (Fate::Elided, false) => cursor.replace(read, Bytes::from_static(&[0, 0])),
            _ if in_one_piece => cursor.pass(read),
            _ => cursor.replace(read, Bytes::copy_from_slice(header.bytes())),
        }
        self.go_on(whole.len, whole.more, fate);
        Ok(())
    }

    /// What is to become of the frame that this header announces.
    fn judge(&mut self, header: FrameHeader) -> Result<Fate, Cut> {
        let FrameHeader { reserved, command, more, len } = header;
        if reserved {
            return Err(Cut::ReservedFlags);
        }
        if len >= ABSURD {
            return Err(Cut::AbsurdLength(len));
        }
        if command && len > self.limits.command {
            return Err(Cut::LongCommand(len));
        }
        if !self.ready {
            let named = usize::try_from(len).is_ok_and(|len| len >= zmtp::READY.len());
            self.ready = command && !more && named;
            return if self.ready { Ok(Fate::Ready { at: 0 }) } else { Err(Cut::Command) };
        }
        if command {
            return Err(Cut::Command);
        }
        let fate = self.message.admit(len, &self.limits)?;
        if matches!(fate, Fate::Elided) {
            self.elided.frames = self.elided.frames.saturating_add(1);
            self.elided.bytes = self.elided.bytes.saturating_add(len);
        }
        Ok(fate)
    }

    /// Reads on in a frame.
    fn frame(&mut self, left: u64, more: bool, mut fate: Fate, cursor: &mut Cursor<'_>) -> Result<(), Cut> {
        let unread = cursor.unread();
        let piece = usize::try_from(left).ok().and_then(|left| unread.get(..left)).unwrap_or(unread);
        let len = piece.len();
        match &mut fate {
            Fate::GoesOn => cursor.pass(len),
            Fate::Elided => cursor.discard(len),
            Fate::Delimiter { at, same } => {
                *same &= DELIMITER.get(*at..).is_some_and(|rest| rest.starts_with(piece));
                *at = at.saturating_add(len);
                cursor.pass(len);
            }
            Fate::Ready { at } => {
                let mut pairs = zmtp::READY.get(*at..).unwrap_or_default().iter().zip(piece);
                if let Some(odd) = pairs.position(|(expected, byte)| expected != byte) {
                    cursor.pass(odd);
                    return Err(Cut::Command);
                }
                *at = at.saturating_add(len);
                cursor.pass(len);
            }
        }
        self.go_on(u64::try_from(len).map_or(0, |len| left.saturating_sub(len)), more, fate);
        Ok(())
    }

    /// The state in a frame of which so many bytes are still to come.
    fn go_on(&mut self, left: u64, more: bool, fate: Fate) {
        if left > 0 {
            self.state = State::Frame { left, more, fate };
            return;
        }
        if !matches!(fate, Fate::Ready { .. }) {
            self.message.frame_ended(more, matches!(fate, Fate::Delimiter { same: true, .. }));
        }
        self.state = State::Header(PartialHeader::default());
    }
}

/// How far the present message has come.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    part: Part,
    frames: u32,
    identities: u32,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
enum Part {
    #[default]
    Identities,
    Signature,
    Header,
    Parent,
    Metadata,
    Content,
    Buffers,
}

impl Progress {
    fn admit(&mut self, len: u64, limits: &Limits) -> Result<Fate, Cut> {
        self.frames = self.frames.saturating_add(1);
        if self.frames > limits.frames {
            return Err(Cut::TooManyFrames);
        }
        let (part, longest) = match self.part {
            Part::Identities => ("routing identity", limits.identity),
            Part::Signature => ("signature", limits.signature),
            Part::Header => ("header", limits.header),
            Part::Parent => ("parent header", limits.header),
            Part::Metadata => ("metadata", limits.metadata),
            Part::Content | Part::Buffers => {
                let bytes = self.bytes.saturating_add(len);
                if len > limits.content || bytes > limits.message {
                    return Ok(Fate::Elided);
                }
                self.bytes = bytes;
                return Ok(Fate::GoesOn);
            }
        };
        if len > longest {
            return Err(Cut::LongFrame { part, len });
        }
        self.bytes = self.bytes.saturating_add(len);
        if !matches!(self.part, Part::Identities) {
            return Ok(Fate::GoesOn);
        }
        // A frame after the last permitted identity can only be the delimiter.
        let delimiter = usize::try_from(len).is_ok_and(|len| len == DELIMITER.len());
        if self.identities > limits.identities || (self.identities == limits.identities && !delimiter) {
            return Err(Cut::TooManyIdentities);
        }
        self.identities = self.identities.saturating_add(1);
        Ok(if delimiter { Fate::Delimiter { at: 0, same: true } } else { Fate::GoesOn })
    }

    fn frame_ended(&mut self, more: bool, delimiter: bool) {
        if !more {
            *self = Self::default();
            return;
        }
        self.part = match self.part {
            Part::Identities if !delimiter => Part::Identities,
            Part::Identities => Part::Signature,
            Part::Signature => Part::Header,
            Part::Header => Part::Parent,
            Part::Parent => Part::Metadata,
            Part::Metadata => Part::Content,
            Part::Content | Part::Buffers => Part::Buffers,
        };
    }
}

/// A chunk that is being read. Its first `passed` bytes go on, in one slice with what follows if that does too.
struct Cursor<'a> {
    chunk: Bytes,
    passed: usize,
    out: &'a mut Vec<Bytes>,
}

impl Cursor<'_> {
    fn unread(&self) -> &[u8] {
        self.chunk.get(self.passed..).unwrap_or_default()
    }

    /// Lets the next bytes go on.
    fn pass(&mut self, len: usize) {
        self.passed = self.passed.saturating_add(len).min(self.chunk.len());
    }

    /// Throws the next bytes away.
    fn discard(&mut self, len: usize) {
        self.flush();
        self.chunk.advance(len.min(self.chunk.len()));
    }

    /// Puts other bytes in place of the next ones.
    fn replace(&mut self, len: usize, by: Bytes) {
        self.discard(len);
        self.out.push(by);
    }

    fn flush(&mut self) {
        if self.passed > 0 {
            self.out.push(self.chunk.split_to(self.passed));
            self.passed = 0;
        }
    }
}

#[cfg(test)]
mod tests;
