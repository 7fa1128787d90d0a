//! The shapes of requests and answers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::serve::files::time;
use crate::serve::identifier::Identifier;
use crate::serve::refusal::Refusal;
use crate::serve::runs::{End, Record};
use crate::serve::store::{Entry, Options};

/// A session.
#[derive(Serialize, ToSchema)]
pub(super) struct Session {
    /// What clients call it.
    identifier: String,
    /// Stands for its container: another one each time it is made anew.
    id: String,
    /// When it was given out, in RFC 3339.
    created_at: String,
    last_used_at: String,
    /// When it ends if nobody uses it.
    expires_at: String,
    /// Executions that run or wait.
    executing: usize,
}

impl Session {
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            identifier: entry.identifier.as_str().to_owned(),
            id: entry.id.to_string(),
            created_at: time(entry.created),
            last_used_at: time(entry.last_used()),
            expires_at: time(entry.expires()),
            executing: entry.history.all().iter().filter(|record| record.end().is_none()).count(),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub(super) struct SessionList {
    pub(super) sessions: Vec<Session>,
}

/// How a new session is to be. Limits can be tightened below the server's own, not loosened.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSession {
    /// What to call it; random if there is none.
    #[schema(min_length = 1, max_length = 256, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]+$")]
    identifier: Option<String>,
    /// Bytes of memory.
    #[schema(minimum = 1)]
    memory: Option<u64>,
    /// Cores.
    #[schema(exclusive_minimum = 0)]
    cpus: Option<f64>,
    /// Processes and threads.
    #[schema(minimum = 1)]
    pids: Option<u32>,
    /// Variables of the kernel's environment.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The time of a cell that names none.
    #[schema(exclusive_minimum = 0)]
    timeout_seconds: Option<f64>,
    /// It ends after this long without a call.
    #[schema(minimum = 1)]
    idle_seconds: Option<f64>,
    /// It ends this long after it was given out.
    #[schema(minimum = 1)]
    life_seconds: Option<f64>,
}

impl NewSession {
    pub(super) fn read(self) -> Result<(Identifier, Options), Refusal> {
        let identifier = match &self.identifier {
            Some(text) => Identifier::new(text).ok_or_else(|| {
                Refusal::invalid("`identifier` has 1 to 256 characters, none of them a control character")
            })?,
            None => Identifier::random(),
        };
        let options = Options {
            memory: self.memory,
            cpus: self.cpus,
            pids: self.pids,
            env: self.env.into_iter().collect(),
            timeout: span("timeout_seconds", self.timeout_seconds)?,
            idle: span("idle_seconds", self.idle_seconds)?,
            life: span("life_seconds", self.life_seconds)?,
        };
        Ok((identifier, options))
    }
}

/// A number of seconds that is a time.
pub(super) fn span(name: &str, seconds: Option<f64>) -> Result<Option<Duration>, Refusal> {
    let span = |seconds| match Duration::try_from_secs_f64(seconds) {
        Ok(span) if !span.is_zero() => Ok(span),
        _ => Err(Refusal::invalid(format!("`{name}` is a number of seconds, more than 0"))),
    };
    seconds.map(span).transpose()
}

/// A cell to run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewExecution {
    pub(super) code: String,
    /// At most the server's own.
    #[schema(exclusive_minimum = 0)]
    pub(super) timeout_seconds: Option<f64>,
}

/// A script, or a program with its arguments, to run beside the kernel.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewScript {
    /// The script's text.
    pub(super) script: Option<String>,
    /// What runs the script: `bash` if not said, `sh`, `pwsh`, or another program of the image that takes a file.
    pub(super) shell: Option<String>,
    /// A program and its arguments, in the place of a script.
    pub(super) argv: Option<Vec<String>>,
    /// What it reads from stdin.
    pub(super) stdin: Option<String>,
    /// At most the server's own.
    #[schema(exclusive_minimum = 0)]
    pub(super) timeout_seconds: Option<f64>,
}

/// A message whose code blocks are to be carried out.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewBlocks {
    /// Markdown, with the code between fences.
    pub(super) message: String,
    /// How blocks of Python run: `kernel` if not said.
    pub(super) python: Option<HowPython>,
    /// Whether to go on with the next block after one that fails.
    pub(super) keep_going: Option<bool>,
    /// Of each block; at most the server's own.
    #[schema(exclusive_minimum = 0)]
    pub(super) timeout_seconds: Option<f64>,
}

#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum HowPython {
    #[default]
    Kernel,
    File,
}

/// An execution that is remembered.
#[derive(Serialize, ToSchema)]
pub(super) struct RecordedExecution {
    id: String,
    /// `waiting`, `running`, `done`, `canceled` or `failed`.
    state: &'static str,
    submitted_at: String,
    /// What was to run.
    code: String,
    /// What came of it, once it is done: an `Execution`, a `ScriptOutcome` or a `BlocksOutcome`.
    #[schema(value_type = Option<Object>)]
    outcome: Option<serde_json::Value>,
    /// Why it failed.
    message: Option<String>,
}

impl RecordedExecution {
    pub(super) fn of(record: &Record) -> Self {
        let (state, outcome, message) = match record.end() {
            None if record.started().is_some() => ("running", None, None),
            None => ("waiting", None, None),
            Some(End::Canceled) => ("canceled", None, None),
            Some(End::Failed(refusal)) => ("failed", None, Some(refusal.message().to_owned())),
            Some(End::Done(outcome)) => ("done", serde_json::to_value(&outcome).ok(), None),
        };
        Self {
            id: record.id.to_string(),
            state,
            submitted_at: time(record.submitted),
            code: record.work.text(),
            outcome,
            message,
        }
    }
}

#[derive(Serialize, ToSchema)]
pub(super) struct ExecutionList {
    pub(super) executions: Vec<RecordedExecution>,
}

/// A file or a directory.
#[derive(Serialize, ToSchema)]
pub(super) struct File {
    /// Relative to the work directory.
    path: String,
    /// `file` or `directory`.
    kind: &'static str,
    /// Bytes.
    size: u64,
    modified_at: Option<String>,
}

impl File {
    pub(super) fn of(entry: &cellblock::FileEntry) -> Self {
        Self {
            path: entry.path.clone(),
            kind: if entry.kind == cellblock::FileKind::Directory { "directory" } else { "file" },
            size: entry.size,
            modified_at: entry.modified.map(time),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub(super) struct FileList {
    pub(super) files: Vec<File>,
}

/// Bytes as they are.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "the shape of a file's content")]
pub(super) struct Binary(Vec<u8>);

/// Why a request is refused; the header `x-ms-error-code` has the code, too.
#[derive(ToSchema)]
#[expect(dead_code, reason = "the shape of what `Refusal` answers")]
pub(super) struct Problem {
    error: ProblemDetail,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "the shape of what `Refusal` answers")]
pub(super) struct ProblemDetail {
    code: String,
    message: String,
}
