//! Reading a message from its frames.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::replay::ReplayHistory;
use super::{DELIMITER, Header, Key, lenient};

/// A message whose signature was true. Its content is read on demand, so that unknown types pass through.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) header: Header,
    /// The header of the request that this is about; none for `{}`.
    pub(crate) parent: Option<Header>,
    pub(crate) content: Bytes,
}

impl Message {
    /// The type of the message.
    pub(crate) fn msg_type(&self) -> &str {
        &self.header.msg_type
    }

    /// The id of the request that this is about.
    pub(crate) fn parent_id(&self) -> Option<&str> {
        parent_id(self.parent.as_ref())
    }

    /// Reads the content as one of the views of [`content`](super::content).
    pub(crate) fn content_as<T: DeserializeOwned>(&self) -> Result<T, ParseError> {
        lenient::read(&self.content).map_err(ParseError::BadContent)
    }
}

/// What came of reading the frames.
#[derive(Debug, Clone)]
pub(crate) enum Parsed {
    /// A message.
    Message(Message),
    /// The guard sent an empty frame on in place of an over-long content, so nothing is left to verify: what is known
    /// is which type of message, about which request, was left out.
    Elided {
        /// Its header, unverified.
        header: Header,
        /// Its parent's, unverified.
        parent: Option<Header>,
    },
}

impl Parsed {
    /// The header.
    pub(crate) fn header(&self) -> &Header {
        match self {
            Self::Message(message) => &message.header,
            Self::Elided { header, .. } => header,
        }
    }

    /// The id of the request that this is about.
    pub(crate) fn parent_id(&self) -> Option<&str> {
        match self {
            Self::Message(message) => message.parent_id(),
            Self::Elided { parent, .. } => parent_id(parent.as_ref()),
        }
    }
}

fn parent_id(parent: Option<&Header>) -> Option<&str> {
    parent.map(|parent| parent.msg_id.as_str()).filter(|id| !id.is_empty())
}

/// Why frames are no message. One such message is skipped and counted, never fatal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ParseError {
    #[error("the message has no delimiter")]
    NoDelimiter,
    #[error("the message has {0} of 5 frames after the delimiter")]
    TooFewFrames(usize),
    #[error("the message's signature is false")]
    BadSignature,
    #[error("the message was received before")]
    Replayed,
    #[error("the message's header is no JSON object")]
    BadHeader(#[source] serde_json::Error),
    #[error("the message's content cannot be read")]
    BadContent(#[source] serde_json::Error),
}

/// Verifies the frames of one multipart message, on the raw bytes, and only then reads its headers.
#[cfg(test)]
pub(crate) fn parse(frames: &[Bytes], key: &Key) -> Result<Parsed, ParseError> {
    Ok(read(frames, key)?.0)
}

fn read<'a>(frames: &'a [Bytes], key: &Key) -> Result<(Parsed, &'a [u8]), ParseError> {
    // Before it are routing identities, or IOPub's topic; behind the content are raw buffers, which the signature does not cover.
    let Some(rest) = frames.splitn(2, |frame| frame == DELIMITER).nth(1) else {
        return Err(ParseError::NoDelimiter);
    };
    let [signature, header, parent, metadata, content, ..] = rest else {
        return Err(ParseError::TooFewFrames(rest.len()));
    };
    let verified = key.verify(signature, [header, parent, metadata, content]);
    let elided = content.is_empty() && (!verified || key.is_empty());
    if !verified && !elided {
        return Err(ParseError::BadSignature);
    }
    let header = lenient::read(header).map_err(ParseError::BadHeader)?;
    let parent = lenient::read(parent).ok().filter(|parent| *parent != Header::default());
    let parsed = if elided {
        Parsed::Elided { header, parent }
    } else {
        Parsed::Message(Message { header, parent, content: content.clone() })
    };
    Ok((parsed, signature))
}

/// Reads all messages of one kernel and refuses repeats.
#[derive(Debug)]
pub(crate) struct Inbox {
    key: Key,
    history: ReplayHistory,
}

impl Inbox {
    /// For a new kernel, which has a key of its own.
    pub(crate) fn new(key: Key) -> Self {
        Self { key, history: ReplayHistory::default() }
    }

    /// Verifies the frames of one multipart message, reads it, and refuses what was read before.
    pub(crate) fn read(&mut self, frames: &[Bytes]) -> Result<Parsed, ParseError> {
        let (parsed, signature) = read(frames, &self.key)?;
        if self.history.admit(signature) { Ok(parsed) } else { Err(ParseError::Replayed) }
    }
}

#[cfg(test)]
mod tests;
