//! What a call returns.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::ansi;
use super::output::{MimeBundle, Output};

/// One execution of a cell: what came of the code and what is true of the session after it.
///
/// # JSON
///
/// It serialises to one object. Fields may be added to it under the same `v`.
///
/// - `status` is `ok`, `error`, `timed_out`, `interrupted`, `aborted`, `kernel_died` or `container_gone`; `error`,
///   `death` and `reason` say more for the statuses `error`, `kernel_died` and `container_gone`, and are null for the others.
/// - `state` is `kept`, `kernel_restarted` or `container_gone`.
/// - `rung` is null, `interrupt`, `kernel_restart` or `container_kill`.
/// - `outputs` are nbformat 4's.
/// - Durations are in whole microseconds, sizes in bytes; null is unknown.
///
/// ```json
#[doc = include_str!("execution.json")]
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Execution {
    /// How it ended.
    pub status: Status,
    /// What is true of variables and files after the call.
    pub state: State,
    /// How far the interrupt ladder had to be climbed; none if nobody interrupted.
    pub rung: Option<Rung>,
    /// Text written to stdout.
    pub stdout: Text,
    /// Text written to stderr. A line of ours at its end tells when a process that the code had started was killed for want of memory,
    /// or when the container was paused while the time was up and it was killed.
    pub stderr: Text,
    /// The last expression's value, as the kernel displays it.
    pub result: Option<MimeBundle>,
    /// Every stream, display, result and error in order, with `update_display_data` and `clear_output` applied.
    ///
    /// What was cleared from here is still counted and kept in `stdout` and `stderr`. A pager's page (`object?`) is a display at
    /// the end.
    pub outputs: Vec<Output>,
    /// Displays, results and updates that were left out because the limit on outputs was reached, and messages with
    /// any kind of output whose content did not arrive or could not be read.
    pub outputs_left_out: u64,
    /// The kernel's number of the cell; none where only a lost reply held it.
    pub execution_count: Option<u32>,
    /// How long it took.
    pub timing: Timing,
    /// What it used; each value is none where the engine cannot tell.
    pub usage: Usage,
}

impl Execution {
    /// Whether the code ran to its end.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }

    /// The last expression's value as text, if there is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.result.as_ref()?.text()
    }

    /// The exception, if the code raised one.
    #[must_use]
    pub fn error(&self) -> Option<&PythonError> {
        match &self.status {
            Status::Error(error) => Some(error),
            _ => None,
        }
    }
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// The code ran to its end.
    Ok,
    /// It raised an exception.
    Error(PythonError),
    /// Its time was up, and it was stopped by the rung that [`Execution::rung`] names.
    TimedOut,
    /// It was interrupted on request.
    Interrupted,
    /// The kernel refused to run it, because an earlier one had failed.
    Aborted,
    /// The kernel process ended during the execution.
    KernelDied(Death),
    /// The container ended during the execution; the text says how.
    ContainerGone(String),
}

impl Status {
    /// Its name in the JSON form.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error(_) => "error",
            Self::TimedOut => "timed_out",
            Self::Interrupted => "interrupted",
            Self::Aborted => "aborted",
            Self::KernelDied(_) => "kernel_died",
            Self::ContainerGone(_) => "container_gone",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Error(error) => error.fmt(f),
            Self::TimedOut => f.write_str("timed out"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Aborted => f.write_str("aborted, because an earlier cell had failed"),
            Self::KernelDied(death) => write!(f, "the kernel died: {death}"),
            Self::ContainerGone(reason) => write!(f, "the container is gone: {reason}"),
        }
    }
}

/// A Python exception.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PythonError {
    /// The class's name.
    pub ename: String,
    /// The message.
    pub evalue: String,
    /// The traceback as IPython formats it, with ANSI colours, a part an item.
    pub traceback: Vec<String>,
}

impl PythonError {
    /// The traceback without ANSI escapes.
    #[must_use]
    pub fn traceback_plain(&self) -> Vec<String> {
        self.traceback.iter().map(|part| ansi::plain(part)).collect()
    }
}

/// As Python prints its last line: the class's name and the message.
impl fmt::Display for PythonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.evalue.as_str() {
            "" => f.write_str(&self.ename),
            evalue => write!(f, "{}: {evalue}", self.ename),
        }
    }
}

/// How a kernel process ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Death {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// The memory limit ended it.
    pub out_of_memory: bool,
    /// Why the host ended it, if the host did.
    pub reason: Option<String>,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            _ if self.reason.is_some() => f.write_str(self.reason.as_deref().unwrap_or_default()),
            _ if self.out_of_memory => f.write_str("out of memory"),
            (_, Some(signal)) => write!(f, "signal {signal}"),
            (Some(code), None) => write!(f, "exit code {code}"),
            (None, None) => f.write_str("cause unknown"),
        }
    }
}

/// What is true of the session *after* a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// Variables and files are as the code left them.
    Kept,
    /// A new kernel runs: variables are gone, files are kept.
    KernelRestarted,
    /// The container is gone: variables and files are gone.
    ContainerGone,
}

/// A rung of the interrupt ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rung {
    /// One interrupt was enough.
    Interrupt,
    /// The code went on after the interrupt for the whole grace; the kernel was restarted.
    KernelRestart,
    /// The kernel could not be restarted in time; the container was killed.
    ContainerKill,
}

/// Captured text, bounded: of a long one, head and tail are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Text {
    /// The text, with a line that says how many bytes are missing where some are.
    pub text: String,
    /// How many bytes came in all.
    pub total_bytes: u64,
    /// Whether some are missing from `text`.
    pub truncated: bool,
    /// The host's file with the text from its beginning on, where it was too long for `text`. It lives as long as the
    /// session, or until newer ones need its room.
    #[serde(serialize_with = "super::json::path")]
    pub spill: Option<PathBuf>,
    /// How many bytes the file holds: `total_bytes` if all, fewer if it met its size limit or a disk that was too slow.
    pub spill_bytes: Option<u64>,
}

/// The text that was kept.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Durations of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Timing {
    /// From the call to the request's way to the kernel.
    pub queued: Duration,
    /// From busy to idle by the kernel's own clock; none if one of them never came.
    pub kernel: Option<Duration>,
    /// From the call to its completion, by the host's clock.
    pub total: Duration,
}

/// Resources of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// CPU time that the whole container spent during the call; since its start, where there is no call.
    pub cpu: Option<Duration>,
    /// Memory in use at its end, in bytes.
    pub memory: Option<u64>,
    /// The most memory in use since the container's start, in bytes.
    pub memory_peak: Option<u64>,
}
