//! Tests that need more than one part of the room.

mod collecting;
mod hostile;
mod json;
mod limits;
mod notebook;
pub(in crate::execution) mod support;
