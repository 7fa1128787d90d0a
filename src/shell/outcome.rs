//! What a script's call returns.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::execution::{State, Text, VERSION, microseconds};

/// What came of a script or a program, and what is true of the session after it.
///
/// # JSON
///
/// It serialises to one object. Fields may be added to it under the same `v`.
///
/// - `status` is `exited`, `signaled`, `timed_out`, `interrupted`, `lost` or `container_gone`; `code`, `signal` and `reason` say more for `exited`,
///   `signaled`, and the last two, and are null for the others.
/// - `state` is `kept` or `container_gone`.
/// - Durations are in whole microseconds, sizes in bytes; null is unknown.
///
/// ```json
#[doc = include_str!("outcome.json")]
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ScriptOutcome {
    /// How it ended.
    pub status: ScriptStatus,
    /// What is true of variables and files after the call: a script does not touch the kernel.
    pub state: State,
    /// While it ran, the memory limit ended a process of the container: most likely one of its own.
    pub out_of_memory: bool,
    /// What it wrote to stdout; bytes that are no UTF-8 are replaced.
    pub stdout: Text,
    /// What it wrote to stderr; bytes that are no UTF-8 are replaced.
    pub stderr: Text,
    /// How long it took.
    pub timing: ScriptTiming,
}

impl ScriptOutcome {
    /// Whether it exited with code 0.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.status == ScriptStatus::Exited(0)
    }

    /// One number, by the shell's conventions: the exit code, 128 and the signal's number, 124 if its time was up, 130 if it was interrupted,
    /// and 137 if it was lost. A script may exit with any of these by itself: [`status`](Self::status) tells.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self.status {
            ScriptStatus::Exited(code) => code,
            ScriptStatus::Signaled(signal) => 128 + signal,
            ScriptStatus::TimedOut => 124,
            ScriptStatus::Interrupted => 130,
            ScriptStatus::Lost(_) | ScriptStatus::ContainerGone(_) => 137,
        }
    }
}

/// How a script ended. Whatever it was: nothing that it started goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptStatus {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it, and the signal was not ours.
    Signaled(i32),
    /// Its time was up.
    TimedOut,
    /// It was interrupted on request.
    Interrupted,
    /// It ended, nobody knows how: what it runs under was killed or forged. The text says more.
    Lost(String),
    /// The container ended during the script; the text says how.
    ContainerGone(String),
}

impl ScriptStatus {
    fn name(&self) -> &'static str {
        match self {
            Self::Exited(_) => "exited",
            Self::Signaled(_) => "signaled",
            Self::TimedOut => "timed_out",
            Self::Interrupted => "interrupted",
            Self::Lost(_) => "lost",
            Self::ContainerGone(_) => "container_gone",
        }
    }
}

impl fmt::Display for ScriptStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit code {code}"),
            Self::Signaled(signal) => write!(f, "signal {signal}"),
            Self::TimedOut => f.write_str("timed out"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Lost(reason) => write!(f, "lost: {reason}"),
            Self::ContainerGone(reason) => write!(f, "the container is gone: {reason}"),
        }
    }
}

/// Durations of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ScriptTiming {
    /// From the call to the word that the script has begun.
    pub starting: Duration,
    /// From its begin to the end of all that it started, by the container's clock; none if its end was not told.
    pub running: Option<Duration>,
    /// From the call to its completion.
    pub total: Duration,
}

/// Something that happens while a script runs.
///
/// A character in UTF-8 is never cut between two events.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ScriptEvent {
    /// Bytes on stdout, as they are.
    Stdout(Bytes),
    /// Bytes on stderr, as they are.
    Stderr(Bytes),
    /// The end, always the last event.
    Done(Box<ScriptOutcome>),
}

impl Serialize for ScriptOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form<'a> {
            v: u32,
            status: &'a str,
            code: Option<i32>,
            signal: Option<i32>,
            reason: Option<&'a str>,
            exit_code: i32,
            state: State,
            out_of_memory: bool,
            stdout: &'a Text,
            stderr: &'a Text,
            timing: ScriptTiming,
        }
        let (code, signal, reason) = match &self.status {
            ScriptStatus::Exited(code) => (Some(*code), None, None),
            ScriptStatus::Signaled(signal) => (None, Some(*signal), None),
            ScriptStatus::Lost(reason) | ScriptStatus::ContainerGone(reason) => (None, None, Some(reason.as_str())),
            ScriptStatus::TimedOut | ScriptStatus::Interrupted => (None, None, None),
        };
        Form {
            v: VERSION,
            status: self.status.name(),
            code,
            signal,
            reason,
            exit_code: self.exit_code(),
            state: self.state,
            out_of_memory: self.out_of_memory,
            stdout: &self.stdout,
            stderr: &self.stderr,
            timing: self.timing,
        }
        .serialize(serializer)
    }
}

impl Serialize for ScriptTiming {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("starting_us", &microseconds(self.starting))?;
        map.serialize_entry("running_us", &self.running.map(microseconds))?;
        map.serialize_entry("total_us", &microseconds(self.total))?;
        map.end()
    }
}

/// `{"event":"stdout","text":"…"}`, with bytes that are no UTF-8 replaced, and at the end `{"event":"done","outcome":{…}}`.
impl Serialize for ScriptEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        match self {
            Self::Stdout(bytes) => {
                map.serialize_entry("event", "stdout")?;
                map.serialize_entry("text", &String::from_utf8_lossy(bytes))?;
            }
            Self::Stderr(bytes) => {
                map.serialize_entry("event", "stderr")?;
                map.serialize_entry("text", &String::from_utf8_lossy(bytes))?;
            }
            Self::Done(outcome) => {
                map.serialize_entry("event", "done")?;
                map.serialize_entry("outcome", outcome)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_json_is_what_comes_out() {
        let text = |text: &str| {
            let mut whole = Text::default();
            (whole.text, whole.total_bytes) = (text.to_owned(), text.len() as u64);
            whole
        };
        let outcome = ScriptOutcome {
            status: ScriptStatus::Exited(3),
            state: State::Kept,
            out_of_memory: false,
            stdout: text("hello\n"),
            stderr: text(""),
            timing: ScriptTiming {
                starting: Duration::from_micros(61_200),
                running: Some(Duration::from_micros(2_100)),
                total: Duration::from_micros(64_800),
            },
        };
        let documented: serde_json::Value = serde_json::from_str(include_str!("outcome.json")).unwrap();
        assert_eq!(serde_json::to_value(&outcome).unwrap(), documented);
        let event = serde_json::to_value(ScriptEvent::Stdout(Bytes::from_static(b"caf\xe9"))).unwrap();
        assert_eq!(event, serde_json::json!({ "event": "stdout", "text": "caf\u{fffd}" }));
        let event = serde_json::to_value(ScriptEvent::Done(Box::new(outcome))).unwrap();
        assert_eq!(event.get("outcome"), Some(&documented));
    }

    #[test]
    fn one_number_by_the_shells_conventions() {
        let code = |status| {
            let (stdout, stderr) = (Text::default(), Text::default());
            let timing = ScriptTiming::default();
            ScriptOutcome { status, state: State::Kept, out_of_memory: false, stdout, stderr, timing }.exit_code()
        };
        assert_eq!(code(ScriptStatus::Exited(124)), 124);
        assert_eq!(code(ScriptStatus::TimedOut), 124);
        assert_eq!(code(ScriptStatus::Signaled(9)), 137);
        assert_eq!(code(ScriptStatus::Interrupted), 130);
        assert_eq!(code(ScriptStatus::ContainerGone(String::new())), 137);
    }
}
