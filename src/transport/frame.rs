//! The frames of a link: `u8 stream · u8 kind · u32 length · payload`, big-endian.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

/// The longest payload that a peer may announce.
pub(crate) const MAX_PAYLOAD: usize = 1 << 20;

const HEADER: usize = 6;

/// What a frame says about its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Open,
    Close,
    Credit,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) stream: u8,
    pub(crate) kind: Kind,
    pub(crate) payload: Bytes,
}

impl Frame {
    pub(crate) fn data(stream: u8, payload: impl Into<Bytes>) -> Self {
        Self { stream, kind: Kind::Data, payload: payload.into() }
    }

    pub(crate) fn open(stream: u8, channel: &'static str) -> Self {
        Self { stream, kind: Kind::Open, payload: Bytes::from_static(channel.as_bytes()) }
    }

    pub(crate) fn close(stream: u8) -> Self {
        Self { stream, kind: Kind::Close, payload: Bytes::new() }
    }

    pub(crate) fn credit(stream: u8, bytes: u32) -> Self {
        Self { stream, kind: Kind::Credit, payload: Bytes::copy_from_slice(&bytes.to_be_bytes()) }
    }
}

/// Reads and writes [`Frame`]s. The peer may be hostile: a length is checked before anything is reserved for it.
#[derive(Debug, Default)]
pub(crate) struct FrameCodec;

impl Decoder for FrameCodec {
    type Item = Frame;
    type Error = std::io::Error;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Frame>, Self::Error> {
        let Some((&[stream, kind, a, b, c, d], _)) = source.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let kind = match kind {
            0 => Kind::Data,
            1 => Kind::Open,
            2 => Kind::Close,
            3 => Kind::Credit,
            _ => return Err(invalid("the bridge sent a frame of an unknown kind")),
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > MAX_PAYLOAD {
            return Err(invalid("the bridge announced a frame of more than 1 MiB"));
        }
        if source.len() - HEADER < length {
            source.reserve(HEADER + length - source.len());
            return Ok(None);
        }
        source.advance(HEADER);
        Ok(Some(Frame { stream, kind, payload: source.split_to(length).freeze() }))
    }
}

impl Encoder<&Frame> for FrameCodec {
    type Error = std::io::Error;

    fn encode(&mut self, frame: &Frame, target: &mut BytesMut) -> Result<(), Self::Error> {
        let length = u32::try_from(frame.payload.len())
            .ok()
            .filter(|&length| length as usize <= MAX_PAYLOAD)
            .ok_or_else(|| invalid("a frame of more than 1 MiB"))?;
        target.reserve(HEADER + frame.payload.len());
        target.put_u8(frame.stream);
        target.put_u8(frame.kind as u8);
        target.put_u32(length);
        target.extend_from_slice(&frame.payload);
        Ok(())
    }
}

pub(crate) fn invalid(text: &'static str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_chunking() {
        let frames = [Frame::open(3, "iopub"), Frame::data(0, &b"{}"[..]), Frame::credit(3, 77), Frame::close(3)];
        let mut wire = BytesMut::new();
        for frame in &frames {
            FrameCodec.encode(frame, &mut wire).unwrap();
        }
        let mut buffer = BytesMut::new();
        let mut seen = Vec::new();
        for byte in wire {
            buffer.put_u8(byte);
            seen.extend(FrameCodec.decode(&mut buffer).unwrap());
        }
        assert_eq!(seen, frames);
    }

    #[test]
    fn a_length_past_the_limit_is_refused_at_the_header() {
        let mut wire = BytesMut::from(&[0, 0, 0xff, 0xff, 0xff, 0xff][..]);
        assert!(FrameCodec.decode(&mut wire).is_err());
    }
}
