//! Code blocks out of messages, without a session.

mod commonmark;
mod hostile;
mod messages;
