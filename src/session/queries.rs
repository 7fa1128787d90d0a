//! What a kernel answers besides running code.

use std::time::Duration;

use super::Session;
use crate::error::{Error, Kind, Ran};
use crate::kernel::Command;
use crate::protocol::content::{CompleteReply, CompleteRequest, IsCompleteReply, IsCompleteRequest};
use crate::protocol::lenient::read;

/// A kernel that runs a cell answers only after it.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Completions of a piece of code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Completion {
    /// The texts that may stand there, best first.
    pub matches: Vec<String>,
    /// Where the text to be replaced begins, in Unicode code points.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// Whether a piece of code is a complete cell.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completeness {
    /// It is.
    Complete,
    /// More is needed, and the next line begins with this indent.
    Incomplete {
        /// The indent.
        indent: String,
    },
    /// It is not Python, and more will not mend it.
    Invalid,
    /// The kernel cannot tell.
    Unknown,
}

impl Session {
    /// Completions of `code` at `cursor`, counted in Unicode code points; one past the end is the end. While a cell runs the kernel does not answer.
    ///
    /// # Errors
    ///
    /// The session has ended, or no answer came within 10 s.
    pub async fn complete(&self, code: &str, cursor: usize) -> Result<Completion, Error> {
        // Past the end the kernel raises an error and never answers.
        let content = CompleteRequest { code, cursor_pos: cursor.min(code.chars().count()) };
        let reply: CompleteReply = self.ask("cannot complete the code", "complete_request", content).await?;
        Ok(Completion { matches: reply.matches, start: reply.cursor_start, end: reply.cursor_end })
    }

    /// Whether `code` is a complete cell. While a cell runs the kernel does not answer.
    ///
    /// # Errors
    ///
    /// The session has ended, or no answer came within 10 s.
    pub async fn is_complete(&self, code: &str) -> Result<Completeness, Error> {
        let content = IsCompleteRequest { code };
        let reply: IsCompleteReply =
            self.ask("cannot tell whether the code is complete", "is_complete_request", content).await?;
        Ok(match reply.status.as_str() {
            "complete" => Completeness::Complete,
            "incomplete" => Completeness::Incomplete { indent: reply.indent },
            "invalid" => Completeness::Invalid,
            _ => Completeness::Unknown,
        })
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        attempted: &str,
        msg_type: &'static str,
        content: impl serde::Serialize,
    ) -> Result<T, Error> {
        let content = serde_json::to_value(content).unwrap_or_default();
        let call = self.handle().call(attempted, |reply| Command::Ask { msg_type, content, reply });
        let failed = |source: String| Error::new(Kind::Protocol, attempted).with_ran(Ran::Never).with_source(source);
        let content = tokio::time::timeout(ANSWER_WAIT, call)
            .await
            .map_err(|_| failed("the kernel did not answer: is a cell running?".to_owned()))??;
        read(&content).map_err(|error| failed(error.to_string()))
    }
}
