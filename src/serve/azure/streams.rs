//! What `stdout` and `stderr` hold.

use cellblock::{Execution, Output, PythonError, Status};

pub(super) const TIMED_OUT: &str = "Request timed out waiting for code execution to complete";
pub(super) const ABORTED: &str = "Execution aborted";
/// What the newest version leaves of a stream, in characters, unless it is asked for more.
pub(super) const CUT_AT: usize = 4096;

/// The text that went to stderr, and behind it what ended the code, if it did not end by itself.
pub(super) fn stderr(execution: &Execution) -> String {
    let mut text = execution.stderr.text.clone();
    match &execution.status {
        Status::Ok => {}
        Status::TimedOut => text.push_str(TIMED_OUT),
        Status::KernelDied(_) | Status::ContainerGone(_) => text.push_str(ABORTED),
        status => match raised(execution) {
            Some(error) => push(&mut text, error),
            None => text.push_str(&status.to_string()),
        },
    }
    text
}

/// The exception that is in the outputs: an interrupted cell has one, too.
fn raised(execution: &Execution) -> Option<&PythonError> {
    execution.error().or_else(|| {
        execution.outputs.iter().rev().find_map(|output| match output {
            Output::Error(error) => Some(error),
            _ => None,
        })
    })
}

/// The message with the traceback right behind it, as the service writes them.
fn push(text: &mut String, error: &PythonError) {
    text.push_str(&error.evalue);
    for part in error.traceback_plain() {
        text.push_str(&part);
        text.push('\n');
    }
}

/// The text's first characters, and a mark where there were more.
pub(super) fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_stream_keeps_its_first_characters() {
        assert_eq!(cut("äöü".into(), 3), "äöü");
        assert_eq!(cut("äöüß".into(), 3), "äöü...");
        assert_eq!(cut("x".into(), 0), "...");
    }
}
