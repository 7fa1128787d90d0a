//! The JSON form of what a call returns.

use std::path::PathBuf;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::event::Event;
use super::outcome::{Death, Execution, PythonError, Rung, State, Status, Text, Timing, Usage};
use super::output::{MimeBundle, Output};

/// The version of the JSON form: raised when a field changes its meaning or goes away, not when one is added.
pub(crate) const VERSION: u32 = 1;

impl Serialize for Execution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Form<'a> {
            v: u32,
            status: &'a str,
            error: Option<ErrorForm<'a>>,
            death: Option<&'a Death>,
            reason: Option<&'a str>,
            state: State,
            rung: Option<Rung>,
            stdout: &'a Text,
            stderr: &'a Text,
            result: Option<&'a MimeBundle>,
            outputs: &'a [Output],
            outputs_left_out: u64,
            execution_count: Option<u32>,
            timing: Timing,
            usage: Usage,
        }
        let (error, death, reason) = match &self.status {
            Status::Error(error) => (Some(ErrorForm::new(error)), None, None),
            Status::KernelDied(death) => (None, Some(death), None),
            Status::ContainerGone(reason) => (None, None, Some(reason.as_str())),
            Status::Ok | Status::TimedOut | Status::Interrupted | Status::Aborted => (None, None, None),
        };
        Form {
            v: VERSION,
            status: self.status.name(),
            error,
            death,
            reason,
            state: self.state,
            rung: self.rung,
            stdout: &self.stdout,
            stderr: &self.stderr,
            result: self.result.as_ref(),
            outputs: &self.outputs,
            outputs_left_out: self.outputs_left_out,
            execution_count: self.execution_count,
            timing: self.timing,
            usage: self.usage,
        }
        .serialize(serializer)
    }
}

#[derive(Serialize)]
struct ErrorForm<'a> {
    ename: &'a str,
    evalue: &'a str,
    traceback: &'a [String],
    traceback_plain: Vec<String>,
}

impl<'a> ErrorForm<'a> {
    fn new(error: &'a PythonError) -> Self {
        let PythonError { ename, evalue, traceback } = error;
        Self { ename, evalue, traceback, traceback_plain: error.traceback_plain() }
    }
}

impl Serialize for Timing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("queued_us", &microseconds(self.queued))?;
        map.serialize_entry("kernel_us", &self.kernel.map(microseconds))?;
        map.serialize_entry("total_us", &microseconds(self.total))?;
        map.end()
    }
}

impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("cpu_us", &self.cpu.map(microseconds))?;
        map.serialize_entry("memory_bytes", &self.memory)?;
        map.serialize_entry("memory_peak_bytes", &self.memory_peak)?;
        map.end()
    }
}

/// JSON has no form for a path that is not UTF-8; failing would lose the whole execution.
pub(super) fn path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}

pub(crate) fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// nbformat 4's output.
impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "output_type", rename_all = "snake_case")]
        enum Form<'a> {
            Stream {
                name: &'a str,
                text: &'a str,
            },
            DisplayData {
                data: &'a Map<String, Value>,
                metadata: &'a Map<String, Value>,
            },
            ExecuteResult {
                data: &'a Map<String, Value>,
                metadata: &'a Map<String, Value>,
                execution_count: Option<u32>,
            },
            Error {
                ename: &'a str,
                evalue: &'a str,
                traceback: &'a [String],
            },
        }
        match self {
            Self::Stream { name, text } => Form::Stream { name, text },
            Self::DisplayData(MimeBundle { data, metadata }) => Form::DisplayData { data, metadata },
            Self::ExecuteResult { bundle: MimeBundle { data, metadata }, execution_count } => {
                Form::ExecuteResult { data, metadata, execution_count: *execution_count }
            }
            Self::Error(PythonError { ename, evalue, traceback }) => Form::Error { ename, evalue, traceback },
        }
        .serialize(serializer)
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "event", rename_all = "snake_case")]
        enum Form<'a> {
            Started {
                execution_count: Option<u32>,
            },
            Stdout {
                text: &'a str,
            },
            Stderr {
                text: &'a str,
            },
            Display {
                #[serde(flatten)]
                bundle: &'a MimeBundle,
                display_id: Option<&'a str>,
            },
            UpdateDisplay {
                #[serde(flatten)]
                bundle: &'a MimeBundle,
                display_id: &'a str,
            },
            Result {
                #[serde(flatten)]
                bundle: &'a MimeBundle,
                execution_count: Option<u32>,
            },
            Error(ErrorForm<'a>),
            ClearOutput {
                wait: bool,
            },
            Paused {
                container: &'a str,
            },
            Lagged {
                events: u64,
            },
            Done {
                execution: &'a Execution,
            },
        }
        match self {
            Self::Started { execution_count } => Form::Started { execution_count: *execution_count },
            Self::Stdout(text) => Form::Stdout { text },
            Self::Stderr(text) => Form::Stderr { text },
            Self::Display { bundle, display_id } => Form::Display { bundle, display_id: display_id.as_deref() },
            Self::UpdateDisplay { bundle, display_id } => Form::UpdateDisplay { bundle, display_id },
            Self::Result { bundle, execution_count } => Form::Result { bundle, execution_count: *execution_count },
            Self::Error(error) => Form::Error(ErrorForm::new(error)),
            Self::ClearOutput { wait } => Form::ClearOutput { wait: *wait },
            Self::Paused { container } => Form::Paused { container },
            Self::Lagged { events } => Form::Lagged { events: *events },
            Self::Done(execution) => Form::Done { execution },
        }
        .serialize(serializer)
    }
}
