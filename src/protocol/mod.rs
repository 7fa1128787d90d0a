//! Jupyter messages as bytes and types: reading, writing, signing.
//!
//! Nothing here does I/O, and nothing here panics, whatever it is given: code in the container holds the signing key, so
//! even a message with a true signature is hostile.

#![deny(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod content;
mod header;
pub(crate) mod lenient;
mod message;
mod replay;
mod request;
mod signature;

#[cfg(test)]
mod oracle_tests;

pub(crate) use header::{Header, timestamp};
pub(crate) use message::{Inbox, ParseError, Parsed};
#[cfg(test)]
pub(crate) use message::{Message, parse};
pub(crate) use request::{encode, encode_answer};
pub(crate) use signature::Key;

/// The frame between routing identities and the message proper.
pub(crate) const DELIMITER: &[u8] = b"<IDS|MSG>";
