//! Scripts and programs: file plus exec, beside the kernel.
#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::string_slice, clippy::unwrap_used)
)]

mod attend;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod interpreter;
mod outcome;
mod refusal;
mod request;
mod text;

pub(crate) use attend::{Attendance, Attended, End, attend};
pub use interpreter::{Interpreter, Shell};
pub use outcome::{ScriptEvent, ScriptOutcome, ScriptStatus, ScriptTiming};
pub(crate) use refusal::PROCESSES_HINT;
pub(crate) use request::{Program, Request};
