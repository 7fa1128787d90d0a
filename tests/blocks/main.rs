//! Code blocks out of messages, without a session.

#[cfg(feature = "infer")]
#[path = "../support/judged.rs"]
mod judged;

mod commonmark;
mod hostile;
mod languages;
mod messages;
