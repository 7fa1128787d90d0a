//! Code blocks out of messages, without a session.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[cfg(feature = "infer")]
#[path = "../support/judged.rs"]
mod judged;

mod commonmark;
mod hostile;
mod languages;
mod messages;
