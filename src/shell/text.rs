//! Cutting a stream of bytes where no character is.

use bytes::{Bytes, BytesMut};

/// Holds back a character's first bytes until the rest of it has come.
#[derive(Debug, Default)]
pub(super) struct WholeCharacters(BytesMut);

impl WholeCharacters {
    /// The bytes so far, but for an incomplete character at their end.
    pub(super) fn push(&mut self, bytes: Bytes) -> Bytes {
        if self.0.is_empty() && incomplete(&bytes) == 0 {
            return bytes;
        }
        self.0.extend_from_slice(&bytes);
        let end = self.0.len() - incomplete(&self.0);
        self.0.split_to(end).freeze()
    }

    pub(super) fn rest(self) -> Bytes {
        self.0.freeze()
    }
}

/// How many bytes at the end begin a character that is not complete.
fn incomplete(bytes: &[u8]) -> usize {
    let lead = bytes.iter().rev().take(3).position(|byte| byte & 0b1100_0000 != 0b1000_0000);
    let Some(length) = lead.map(|index| index + 1) else { return 0 };
    let tail = bytes.get(bytes.len() - length..).unwrap_or_default();
    // Only what more bytes could complete has no error length.
    match std::str::from_utf8(tail) {
        Err(error) if error.error_len().is_none() => length,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_pieces_no_character_is_cut() {
        let whole = "a é € 😀 z".as_bytes();
        for size in 1..5 {
            let mut characters = WholeCharacters::default();
            let mut seen = Vec::new();
            for piece in whole.chunks(size) {
                let given = characters.push(Bytes::copy_from_slice(piece));
                assert!(std::str::from_utf8(&given).is_ok(), "{size}: {given:?}");
                seen.extend_from_slice(&given);
            }
            assert_eq!(seen, whole);
            assert!(characters.rest().is_empty());
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_not_held_back_or_changed() {
        let mut characters = WholeCharacters::default();
        assert_eq!(characters.push(Bytes::from_static(b"caf\xe9 \xff\x80")), &b"caf\xe9 \xff\x80"[..]);
        assert_eq!(characters.push(Bytes::from_static(b"caf\xe9")), &b"caf"[..]);
        assert_eq!(characters.push(Bytes::from_static(b"\n")), &b"\xe9\n"[..]);
        assert_eq!(characters.push(Bytes::from_static(b"\xf0\x9f")), &b""[..]);
        assert_eq!(characters.rest(), &b"\xf0\x9f"[..]);
    }
}
