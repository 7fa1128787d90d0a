//! Messages to collect, and the execution that comes of them.

use std::time::Duration;

use futures_util::FutureExt;
use serde_json::Value;

use crate::execution::{Collector, Ending, Event, Execution, State, Usage};

pub(in crate::execution) const BUSY: &str = "2026-01-02T03:04:05.000001Z";
pub(in crate::execution) const IDLE: &str = "2026-01-02T03:04:05.250003+00:00";

pub(in crate::execution) fn ending() -> Ending {
    Ending {
        status: None,
        state: State::Kept,
        rung: None,
        queued: Duration::from_micros(12),
        total: Duration::from_millis(300),
        usage: Usage::default(),
    }
}

/// Feeds the messages, given as type and content.
pub(in crate::execution) fn feed(collector: &mut Collector, messages: &[(&str, Value)]) -> Vec<Event> {
    messages
        .iter()
        .filter_map(|(msg_type, content)| collector.iopub(msg_type, content.to_string().as_bytes(), BUSY))
        .collect()
}

/// The execution, where nothing is spilled.
pub(in crate::execution) fn finished(collector: Collector) -> Execution {
    collector.finish(ending()).now_or_never().expect("nothing to wait for")
}

pub(in crate::execution) fn collected(messages: &[(&str, Value)]) -> Execution {
    let mut collector = Collector::new(crate::execution::Limits::default(), None);
    feed(&mut collector, messages);
    finished(collector)
}
