//! The cell that an earlier controller left: put together from the bridge's recording and what still comes.

use std::time::Instant;

use tokio::sync::oneshot;

use super::command::{Cell, OnDrop};
use super::driver::Settings;
use super::running::{Cause, Running};
use crate::Error;
use crate::execution::{Collector, Execution, Usage};
use crate::protocol::{Inbox, Key, Parsed};
use crate::transport::{Bridge, CellReport};

/// Where the result of a recovered cell arrives.
pub(crate) type Recovered = oneshot::Receiver<Result<Execution, Error>>;

/// Reads the recording of a cell whose result nobody has had. None if nothing is recorded of it.
pub(super) async fn recover(
    bridge: &mut Bridge,
    report: &CellReport,
    settings: &Settings,
) -> Option<(Running, Recovered)> {
    let Recorded { messages, gap } = read(bridge, report, settings).await?;
    let id = messages.first()?.parent_id()?.to_owned();
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
    running.recovered = true;
    take(&mut running, messages.iter(), gap.is_some());
    take_report(&mut running, report, settings);
    Some((running, recovered))
}

/// Takes from the recording what the running cell sent while its link was lost. False if it is another cell's.
pub(super) async fn catch_up(
    bridge: &mut Bridge,
    report: &CellReport,
    running: &mut Running,
    settings: &Settings,
) -> bool {
    let Some(Recorded { messages, gap }) = read(bridge, report, settings).await else { return false };
    if messages.first().and_then(Parsed::parent_id) != Some(running.id.as_str()) {
        return false;
    }
    // IOPub brings them in the order in which they are recorded.
    let heard = messages.iter().rposition(|parsed| parsed.header().msg_id == running.latest).map(|last| last + 1);
    let heard = heard.unwrap_or(if running.was_heard() { gap.unwrap_or(messages.len()) } else { 0 });
    take(running, messages.iter().skip(heard), gap.is_some_and(|gap| heard <= gap));
    take_report(running, report, settings);
    true
}

/// The recording of a cell as its messages, the first of which is its own.
struct Recorded {
    messages: Vec<Parsed>,
    /// How many of them come before those that are lost, if any are.
    gap: Option<usize>,
}

async fn read(bridge: &mut Bridge, report: &CellReport, settings: &Settings) -> Option<Recorded> {
    let recording = bridge
        .recording(report.number, settings.ready)
        .await
        .inspect_err(|error| tracing::warn!(%error, "what was recorded of the cell cannot be had"))
        .ok()?;
    let mut inbox = Inbox::new(Key::new(report.key.as_str()));
    let mut recorded = Recorded { messages: Vec::new(), gap: None };
    for (number, frames) in recording.messages.iter().enumerate() {
        if recording.gap == Some(number) {
            recorded.gap = Some(recorded.messages.len());
        }
        recorded.messages.extend(inbox.read(frames).ok());
    }
    if recording.gap.is_some() {
        recorded.gap.get_or_insert(recorded.messages.len());
    }
    Some(recorded)
}

fn take<'a>(running: &mut Running, messages: impl Iterator<Item = &'a Parsed>, some_are_lost: bool) {
    let id = running.id.clone();
    for parsed in messages.filter(|parsed| parsed.parent_id() == Some(&id)) {
        running.recorded(parsed);
    }
    if some_are_lost {
        tracing::warn!("of what the cell sent while nobody heard it not everything was kept");
        running.collector.left_out("stream");
    }
}

fn take_report(running: &mut Running, report: &CellReport, settings: &Settings) {
    if report.was_interrupted() {
        running.interrupted(Cause::TimedOut, settings.grace);
    }
    if !report.is_running() {
        running.reply_is_lost();
    }
}
