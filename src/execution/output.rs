//! Outputs in nbformat's shapes.

use serde::Serialize;
use serde_json::{Map, Value};

use super::outcome::PythonError;

/// A value in several representations, by MIME type: Jupyter's `data` and `metadata`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct MimeBundle {
    /// Representations by MIME type. Text is a string, binary data is base64 text, JSON types are JSON.
    pub data: Map<String, Value>,
    /// Metadata, by MIME type where it is about one.
    pub metadata: Map<String, Value>,
}

impl MimeBundle {
    /// The `text/plain` representation, if there is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.get("text/plain")
    }

    /// The representation of this MIME type, if it is there as text.
    #[must_use]
    pub fn get(&self, mime: &str) -> Option<&str> {
        self.data.get(mime).and_then(Value::as_str)
    }

    /// About the memory that it takes.
    pub(super) fn weight(&self) -> usize {
        weight_of_members(&self.data) + weight_of_members(&self.metadata)
    }
}

fn weight_of_members(members: &Map<String, Value>) -> usize {
    members.iter().map(|(key, value)| size_of::<String>() + key.len() + weight(value)).sum()
}

fn weight(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => weight_of_members(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    size_of::<Value>() + inside
}

/// One output of a cell, serialised as nbformat 4.5 does.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Output {
    /// Text on stdout or stderr.
    Stream {
        /// `stdout` or `stderr`.
        name: String,
        /// The text, within the limits of the capture.
        text: String,
    },
    /// A display.
    DisplayData(MimeBundle),
    /// The value of the last expression.
    ExecuteResult {
        /// The value.
        bundle: MimeBundle,
        /// The kernel's number of the cell.
        execution_count: Option<u32>,
    },
    /// An exception.
    Error(PythonError),
}
