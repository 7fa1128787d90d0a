//! The bridge's recording of the latest cell, for whoever was not there: IOPub messages as their wire frames.
//!
//! The kernel can forge it, so every number in it is checked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes, BytesMut};
use serde::Deserialize;

/// The longest record, and the most frames of one: those of the guard, for a message that passed it once.
const MAX_RECORD: usize = 48 << 20;
const MAX_FRAMES: usize = 1024;

/// A range of the record stream of one cell, as the bridge answers it.
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    /// The number of the recorded cell; 0 if there is none.
    pub(crate) cell: u64,
    /// Where `data` begins: past what was asked for if bytes between are lost.
    pub(crate) from: u64,
    /// Where the next page begins.
    pub(crate) next: u64,
    /// Where the recording ends now.
    pub(crate) total: u64,
    data: String,
}

/// Why a recording cannot be read on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    #[error("a page of the recording is not base64")]
    NotBase64,
    #[error("a page of the recording has no sensible offsets")]
    Offsets,
    #[error("a record has no sensible length")]
    Length,
}

/// Puts records together from the pages of one cell.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    buffer: BytesMut,
    next: u64,
    lost: u64,
}

impl Reassembly {
    /// Takes the next page and returns the messages that are complete with it.
    pub(crate) fn push(&mut self, page: &Page) -> Result<Vec<Vec<Bytes>>, RecordingError> {
        let data = STANDARD.decode(&page.data).map_err(|_| RecordingError::NotBase64)?;
        let begins_later = page.from.checked_sub(self.next).ok_or(RecordingError::Offsets)?;
        if page.from.checked_add(data.len() as u64) != Some(page.next) {
            return Err(RecordingError::Offsets);
        }
        if begins_later > 0 {
            // A gap lies between records: what is left of one before it is lost with it.
            self.lost = self.lost.saturating_add(begins_later);
            self.buffer.clear();
        }
        self.next = page.next;
        self.buffer.extend_from_slice(&data);
        let mut messages = Vec::new();
        while let Some(message) = self.record()? {
            messages.push(message);
        }
        Ok(messages)
    }

    /// Where the next page has to begin.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// How many bytes of the recording were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    fn record(&mut self) -> Result<Option<Vec<Bytes>>, RecordingError> {
        let Some((length, _)) = self.buffer.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if !(8..=MAX_RECORD).contains(&length) {
            return Err(RecordingError::Length);
        }
        if self.buffer.len() < length {
            return Ok(None);
        }
        let mut record = self.buffer.split_to(length).freeze();
        record.advance(4);
        let count = record.try_get_u32().map_err(|_| RecordingError::Length)? as usize;
        if count > MAX_FRAMES {
            return Err(RecordingError::Length);
        }
        let mut frames = Vec::new();
        for _ in 0..count {
            let length = record.try_get_u32().map_err(|_| RecordingError::Length)? as usize;
            if length > record.len() {
                return Err(RecordingError::Length);
            }
            frames.push(record.split_to(length));
        }
        Ok(Some(frames))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(frames: &[&[u8]]) -> Vec<u8> {
        let body: Vec<u8> =
            frames.iter().flat_map(|frame| [&(frame.len() as u32).to_be_bytes()[..], frame].concat()).collect();
        let length = (8 + body.len()) as u32;
        [&length.to_be_bytes()[..], &(frames.len() as u32).to_be_bytes(), &body].concat()
    }

    fn page(from: u64, data: &[u8]) -> Page {
        let next = from + data.len() as u64;
        Page { cell: 1, from, next, total: next, data: STANDARD.encode(data) }
    }

    #[test]
    fn records_come_whole_however_the_pages_fall() {
        let stream = [record(&[b"topic", b"<IDS|MSG>"]), record(&[b"", b"x"])].concat();
        for size in 1..stream.len() {
            let mut reassembly = Reassembly::default();
            let mut messages = Vec::new();
            for (number, chunk) in stream.chunks(size).enumerate() {
                messages.extend(reassembly.push(&page((number * size) as u64, chunk)).unwrap());
            }
            assert_eq!(messages, [vec![Bytes::from("topic"), "<IDS|MSG>".into()], vec!["".into(), "x".into()]]);
            assert_eq!((reassembly.next(), reassembly.lost()), (stream.len() as u64, 0));
        }
    }

    #[test]
    fn a_gap_costs_only_what_lies_in_it() {
        let mut reassembly = Reassembly::default();
        let first = record(&[b"a"]);
        assert_eq!(reassembly.push(&page(0, &first)).unwrap().len(), 1);
        assert_eq!(reassembly.push(&page(1000, &record(&[b"b"]))).unwrap(), [[Bytes::from("b")]]);
        assert_eq!(reassembly.lost(), 1000 - first.len() as u64);
    }

    #[test]
    fn forged_numbers_are_errors() {
        let huge = [&u32::MAX.to_be_bytes()[..], &[0; 4]].concat();
        let many = [&8_u32.to_be_bytes()[..], &u32::MAX.to_be_bytes()].concat();
        let short = [&12_u32.to_be_bytes()[..], &1_u32.to_be_bytes(), &9_u32.to_be_bytes()].concat();
        for forged in [huge, many, short, vec![0; 4]] {
            assert!(Reassembly::default().push(&page(0, &forged)).is_err());
        }
        let mut reassembly = Reassembly::default();
        reassembly.push(&page(10, b"")).unwrap();
        assert!(reassembly.push(&page(3, b"")).is_err(), "backwards");
        assert!(Reassembly::default().push(&Page { next: 99, ..page(0, b"abc") }).is_err());
    }
}
