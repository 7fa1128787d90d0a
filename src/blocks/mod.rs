//! Code blocks: out of a message, by a policy, into a session.
#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::string_slice, clippy::unwrap_used)
)]

mod extract;
mod filename;
mod json;
mod language;
mod listing;
mod outcome;
mod pip;
mod policy;
mod run;

use serde::Serialize;

pub use extract::extract_code_blocks;
pub use language::infer_language;
pub use outcome::{BlockOutcome, BlockResult, BlocksOutcome, Refusal};
pub use policy::{Policy, PythonMode};
pub use run::{BlocksEvent, RunBlocks};

/// A piece of code in a language.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CodeBlock {
    /// The code.
    pub code: String,
    /// The language's name in any case, such as `python`, `py`, `bash`; empty if it is not known.
    pub language: String,
}

impl CodeBlock {
    /// A block of this code in this language.
    pub fn new(code: impl Into<String>, language: impl Into<String>) -> Self {
        Self { code: code.into(), language: language.into() }
    }
}
