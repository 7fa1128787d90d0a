//! From messages to an [`Execution`]: outputs in order, bounded capture, timing, outcome and state.
#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::string_slice, clippy::unwrap_used)
)]

mod ansi;
mod capture;
mod clock;
mod collector;
mod content;
mod event;
mod json;
mod lenient;
mod outcome;
mod output;
mod outputs;
mod queue;
mod spill;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use ansi::plain;
pub use ansi::{TerminalFilter, colour_only};
pub(crate) use collector::{Collector, Ending, Limits};
pub use event::Event;
pub(crate) use json::{VERSION, microseconds};
pub use outcome::{Death, Execution, PythonError, Rung, State, Status, Text, Timing, Usage};
pub use output::{MimeBundle, Output};
pub(crate) use queue::{EventReceiver, EventSender, channel};
pub(crate) use spill::SpillDirectory;
pub(crate) use stream::{StreamName, TextStream};
