//! The cell that an earlier controller left: put together from the bridge's recording and what still comes.

use std::time::Instant;

use tokio::sync::oneshot;

use super::command::{Cell, OnDrop};
use super::driver::Settings;
use super::running::{Cause, Running};
use crate::Error;
use crate::execution::{Collector, Execution, Usage};
use crate::protocol::{Inbox, Key};
use crate::transport::{Bridge, CellReport};

/// Where the result of a recovered cell arrives.
pub(crate) type Recovered = oneshot::Receiver<Result<Execution, Error>>;

/// Reads the recording of a cell whose result nobody has had. None if nothing is recorded of it.
pub(super) async fn recover(
    bridge: &mut Bridge,
    report: &CellReport,
    settings: &Settings,
) -> Option<(Running, Recovered)> {
    let (messages, lost) = match bridge.recording(report.number, settings.ready).await {
        Ok(recording) => recording,
        Err(error) => {
            tracing::warn!(%error, "the cell that was left cannot be recovered");
            return None;
        }
    };
    let mut inbox = Inbox::new(Key::new(report.key.as_str()));
    let mut messages = messages.iter().filter_map(|frames| inbox.read(frames).ok()).peekable();
    let id = messages.peek()?.parent_id()?.to_owned();
    let (reply, recovered) = oneshot::channel();
    let cell = Cell {
        code: String::new(),
        timeout: report.time_left().unwrap_or(settings.timeout),
        on_drop: OnDrop::LeaveRunning,
        events: None,
        stdin: None,
        reply,
        submitted: Instant::now(),
    };
    let collector = Collector::new(settings.limits, settings.spill.clone());
    let mut running = Running::new(id.clone(), Box::new(cell), collector, Usage::default());
    for parsed in messages.filter(|parsed| parsed.parent_id() == Some(&id)) {
        running.recorded(&parsed);
    }
    if lost > 0 {
        tracing::warn!(lost, "of the cell that was left not everything was kept");
        running.collector.left_out("stream");
    }
    if report.was_interrupted() {
        running.interrupted(Cause::TimedOut, settings.grace);
    }
    if !report.is_running() {
        running.reply_is_lost();
    }
    Some((running, recovered))
}
