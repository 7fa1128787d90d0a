//! Typed views of contents. Fields that are absent or of the wrong type have their default; fields not named are left.
//! Positions in code count Unicode code points (messaging protocol 5.2).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::lenient::{or_default, strings};

/// Run a cell.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ExecuteRequest<'a> {
    pub(crate) code: &'a str,
    pub(crate) silent: bool,
    pub(crate) store_history: bool,
    pub(crate) user_expressions: Map<String, Value>,
    pub(crate) allow_stdin: bool,
    pub(crate) stop_on_error: bool,
}

impl<'a> ExecuteRequest<'a> {
    /// A cell as a notebook runs it. It may ask for input, since without `allow_stdin` an `input()` raises
    /// StdinNotImplementedError; answered with an end of file it raises EOFError, as it does in a script.
    pub(crate) fn new(code: &'a str) -> Self {
        Self {
            code,
            silent: false,
            store_history: true,
            user_expressions: Map::new(),
            allow_stdin: true,
            stop_on_error: true,
        }
    }
}

/// `kernel_info_request` and `interrupt_request` say nothing more.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Empty {}

/// Does the code end here, or does it go on in the next line?
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct IsCompleteRequest<'a> {
    pub(crate) code: &'a str,
}

/// What could stand at the cursor?
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct CompleteRequest<'a> {
    pub(crate) code: &'a str,
    pub(crate) cursor_pos: usize,
}

/// A line for `input()`. A lone `\x04` means end of file.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct InputReply<'a> {
    pub(crate) value: &'a str,
}

/// `input_request`, on stdin: code called `input()` or `getpass()`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InputRequest {
    #[serde(deserialize_with = "or_default")]
    pub(crate) prompt: String,
    #[serde(deserialize_with = "or_default")]
    pub(crate) password: bool,
}

/// `interrupt_reply`. The image's launcher adds `idle`: no code was running, and nothing was interrupted.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct InterruptReply {
    #[serde(deserialize_with = "or_default")]
    pub(crate) idle: bool,
}

/// `is_complete_reply`: `complete`, `incomplete`, `invalid` or `unknown`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct IsCompleteReply {
    #[serde(deserialize_with = "or_default")]
    pub(crate) status: String,
    /// What to put before the next line of an incomplete cell.
    #[serde(deserialize_with = "or_default")]
    pub(crate) indent: String,
}

/// `complete_reply`: each match can replace the code points from `cursor_start` to `cursor_end`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CompleteReply {
    #[serde(deserialize_with = "strings")]
    pub(crate) matches: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) cursor_start: usize,
    #[serde(deserialize_with = "or_default")]
    pub(crate) cursor_end: usize,
}
