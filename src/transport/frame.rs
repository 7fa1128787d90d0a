//! The frames of a link: `u8 stream · u8 kind · u32 length · payload`, big-endian.

use bytes::{Buf, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

/// The longest payload that a peer may announce.
pub(crate) const MAX_PAYLOAD: usize = 1 << 20;

pub(crate) const HEADER: usize = 6;

/// What a frame says about its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Open,
    Close,
    Credit,
}

/// Reads a frame's header: its stream, its kind, and the length of its payload. The peer may be hostile: the length is checked.
pub(crate) fn read_header(&[stream, kind, a, b, c, d]: &[u8; HEADER]) -> std::io::Result<(u8, Kind, usize)> {
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
    Ok((stream, kind, length))
}

/// Writes a frame's header.
pub(crate) fn write_header(stream: u8, kind: Kind, length: usize) -> std::io::Result<[u8; HEADER]> {
    let length = u32::try_from(length).ok().filter(|&length| length as usize <= MAX_PAYLOAD);
    let [a, b, c, d] = length.ok_or_else(|| invalid("a frame of more than 1 MiB"))?.to_be_bytes();
    Ok([stream, kind as u8, a, b, c, d])
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
        let Some((header, _)) = source.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let (stream, kind, length) = read_header(header)?;
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
        let header = write_header(frame.stream, frame.kind, frame.payload.len())?;
        target.reserve(HEADER + frame.payload.len());
        target.extend_from_slice(&header);
        target.extend_from_slice(&frame.payload);
        Ok(())
    }
}

pub(crate) fn invalid(text: &'static str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use bytes::BufMut as _;

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
