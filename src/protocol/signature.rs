//! Signing and verifying: HMAC-SHA256 over the four JSON parts, in lower-case hex.

use std::fmt;

use hmac::digest::Key as MacKey;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The key of one kernel. An empty key means unsigned messages, as in Jupyter's connection files.
#[derive(Clone)]
pub(crate) struct Key(Option<Hmac<Sha256>>);

impl Key {
    /// A key from its bytes; Jupyter's are the ASCII characters of its text, not what they spell in hex.
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Self(None);
        }
        // HMAC's own rule for a key of any length, which the crate offers only behind a `Result`.
        let mut block = MacKey::<Hmac<Sha256>>::default();
        if bytes.len() <= block.len() {
            fill(&mut block, &bytes);
        } else {
            fill(&mut block, &Sha256::digest(&bytes));
        }
        Self(Some(Hmac::new(&block)))
    }

    /// Whether messages are signed at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The signature of header, parent header, metadata and content, exactly as they are sent.
    pub(crate) fn sign(&self, parts: [&[u8]; 4]) -> String {
        self.mac(parts).map(|mac| hex(&mac.finalize().into_bytes())).unwrap_or_default()
    }

    /// Whether this is their signature, in constant time. Only lower-case hex is one: no message has two signatures.
    pub(crate) fn verify(&self, signature: &[u8], parts: [&[u8]; 4]) -> bool {
        match self.mac(parts) {
            None => signature.is_empty(),
            Some(mac) => unhex(signature).is_some_and(|bytes| mac.verify_slice(&bytes).is_ok()),
        }
    }

    fn mac(&self, parts: [&[u8]; 4]) -> Option<Hmac<Sha256>> {
        let mut mac = self.0.clone()?;
        for part in parts {
            mac.update(part);
        }
        Some(mac)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

fn fill(block: &mut [u8], bytes: &[u8]) {
    for (slot, byte) in block.iter_mut().zip(bytes) {
        *slot = *byte;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0xf])
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'f' => char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()),
        _ => None,
    };
    let pairs = text.chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: [&[u8]; 4] = [b"{\"a\":1}", b"{}", b"{}", b"{\"b\":2}"];

    #[test]
    fn a_signature_is_verified_and_every_change_is_refused() {
        let key = Key::new("secret");
        let signature = key.sign(PARTS);
        assert_eq!(signature.len(), 64);
        assert!(key.verify(signature.as_bytes(), PARTS));
        for changed in 0..4 {
            let mut parts = PARTS;
            parts[changed] = b"{\"a\":3}";
            assert!(!key.verify(signature.as_bytes(), parts));
        }
        assert!(!Key::new("other").verify(signature.as_bytes(), PARTS));
    }

    #[test]
    fn what_is_not_lower_case_hex_of_the_right_length_is_no_signature() {
        let key = Key::new("secret");
        let signature = key.sign(PARTS);
        for wrong in [
            signature.to_uppercase().into_bytes(),
            signature.as_bytes()[..62].to_vec(),
            signature.as_bytes()[..63].to_vec(),
            [signature.as_bytes(), b"00"].concat(),
            [b"+", &signature.as_bytes()[1..]].concat(),
            vec![0xff; 64],
            Vec::new(),
        ] {
            assert!(!key.verify(&wrong, PARTS), "{wrong:?}");
        }
    }

    #[test]
    fn an_empty_key_signs_nothing_and_takes_no_signature() {
        let key = Key::new("");
        assert!(key.is_empty());
        assert_eq!(key.sign(PARTS), "");
        assert!(key.verify(b"", PARTS));
        assert!(!key.verify(Key::new("secret").sign(PARTS).as_bytes(), PARTS));
    }

    #[test]
    fn a_key_longer_than_a_block_is_hashed_first() {
        // RFC 4231, test case 6: a key of 131 bytes 0xaa.
        let key = Key::new(vec![0xaa; 131]);
        let signature = key.sign([b"Test Using Larger ", b"Than Block-Size", b" Key - Hash", b" Key First"]);
        assert_eq!(signature, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn debug_does_not_show_the_key() {
        assert_eq!(format!("{:?}", Key::new("secret")), "Key(..)");
    }
}
