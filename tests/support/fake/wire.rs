//! Jupyter messages, written and read apart from cellblock's own code.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use uuid::Uuid;

const DELIMITER: &[u8] = b"<IDS|MSG>";

/// What signs for one kernel.
#[derive(Debug)]
pub(crate) struct Wire {
    key: Vec<u8>,
    session: String,
}

/// A message from the host, its signature found true.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Its header as it was written, to be the parent of what comes of it.
    pub(crate) header: Vec<u8>,
    pub(crate) msg_type: String,
    pub(crate) content: Value,
}

impl Wire {
    pub(crate) fn new(key: &str) -> Self {
        Self { key: key.as_bytes().to_vec(), session: Uuid::new_v4().simple().to_string() }
    }

    /// The frames of a message from the delimiter on. An empty `parent` is none.
    pub(crate) fn message(&self, msg_type: &str, parent: &[u8], content: &Value) -> Vec<Vec<u8>> {
        self.raw_message(msg_type, parent, content.to_string().into_bytes())
    }

    /// The same with a content that need not be JSON.
    pub(crate) fn raw_message(&self, msg_type: &str, parent: &[u8], content: Vec<u8>) -> Vec<Vec<u8>> {
        let header = json!({
            "msg_id": Uuid::new_v4().simple().to_string(),
            "session": self.session,
            "username": "fake",
            "date": format!("{:.6}", jiff::Timestamp::now()),
            "msg_type": msg_type,
            "version": "5.3",
        });
        let parent = if parent.is_empty() { b"{}" } else { parent };
        self.sealed([header.to_string().into_bytes(), parent.to_vec(), b"{}".to_vec(), content])
    }

    /// Frames with these four parts, whatever they are, under a true signature.
    pub(crate) fn sealed(&self, parts: [Vec<u8>; 4]) -> Vec<Vec<u8>> {
        let mut frames = vec![DELIMITER.to_vec(), self.sign(&parts).into_bytes()];
        frames.extend(parts);
        frames
    }

    fn sign(&self, parts: &[Vec<u8>]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes any key");
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads a message; none where ipykernel would be silent.
    pub(crate) fn read(&self, frames: &[Vec<u8>]) -> Option<Asked> {
        let at = frames.iter().position(|frame| frame == DELIMITER)?;
        let (signature, parts) = frames.get(at + 1..)?.split_first()?;
        let parts = parts.get(..4)?;
        if self.sign(parts).as_bytes() != signature {
            return None;
        }
        let header: Value = serde_json::from_slice(&parts[0]).ok()?;
        Some(Asked {
            header: parts[0].clone(),
            msg_type: header["msg_type"].as_str()?.to_owned(),
            content: serde_json::from_slice(&parts[3]).ok()?,
        })
    }
}
