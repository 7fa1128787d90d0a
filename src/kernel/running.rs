//! The cell that runs: its messages, its clock, and when it is complete.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::command::{Cell, OnDrop};
use super::silence::Silence;
use crate::Error;
use crate::execution::{Collector, Ending, Event, Rung, State, Status, Usage};
use crate::protocol::{Header, Parsed};

/// Idle has come and the reply has not: after this a probe on shell tells whether it still can.
const PROBE_AFTER: Duration = Duration::from_secs(1);
/// One half of the end has come; this long without any message of the cell, and the other half is taken as lost.
const HALF_WAIT: Duration = Duration::from_secs(5);

/// Why the driver is ending the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    TimedOut,
    Interrupted,
}

/// The clock's next step for a cell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Its time is up: interrupt it.
    Timeout,
    /// The grace after the interrupt is over: restart the kernel.
    Grace,
    /// Ask on shell whether the reply can still come.
    Probe,
    /// It is complete without what never came.
    Complete,
    /// It is silent: look whether the container is paused.
    Look,
}

/// The cell in flight.
pub(super) struct Running {
    pub(super) id: String,
    pub(super) cell: Box<Cell>,
    span: tracing::Span,
    pub(super) collector: Collector,
    pub(super) before: Usage,
    queued: Duration,
    deadline: Instant,
    /// Set once the time was up: when the kernel is restarted.
    grace_end: Option<Instant>,
    pub(super) cause: Option<Cause>,
    /// The caller is gone and has been dealt with.
    pub(super) abandoned: bool,
    last_message: Instant,
    pub(super) silence: Silence,
    /// A message of it came on IOPub.
    heard: bool,
    /// The kernel has taken it up, as a message of it other than its status says.
    begun: bool,
    /// The id of the latest such message.
    pub(super) latest: String,
    /// An earlier controller sent it.
    pub(super) recovered: bool,
    /// When the first half of the end came.
    half_since: Option<Instant>,
    probe: Option<String>,
    /// A later request on shell was answered: the reply can no longer come.
    reply_lost: bool,
    /// The newest request for input, and the way of its answer.
    pub(super) input: Option<(Header, oneshot::Receiver<Option<String>>)>,
    /// Messages that were read from the recording, which may come once more.
    recorded: HashSet<String>,
}

impl Running {
    pub(super) fn new(id: String, cell: Box<Cell>, collector: Collector, before: Usage) -> Self {
        let now = Instant::now();
        let span = tracing::info_span!("execution", id);
        span.in_scope(|| tracing::debug!(bytes = cell.code.len(), "sent to the kernel"));
        Self {
            id,
            span,
            queued: cell.submitted.elapsed(),
            deadline: now + cell.timeout,
            cell,
            collector,
            before,
            grace_end: None,
            cause: None,
            abandoned: false,
            last_message: now,
            silence: Silence::new(),
            heard: false,
            begun: false,
            latest: String::new(),
            recovered: false,
            half_since: None,
            probe: None,
            reply_lost: false,
            input: None,
            recorded: HashSet::new(),
        }
    }

    /// How long the kernel that runs it may still be left alone.
    pub(super) fn time_left(&self, grace: Duration) -> Duration {
        self.grace_end.unwrap_or(self.deadline + grace).saturating_duration_since(Instant::now())
    }

    pub(super) fn time_is_up(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Takes a message of this cell from IOPub.
    pub(super) fn iopub(&mut self, parsed: &Parsed) {
        self.last_message = Instant::now();
        self.heard = true;
        self.begun |= parsed.header().msg_type != "status";
        self.latest.clone_from(&parsed.header().msg_id);
        if self.recorded.contains(&parsed.header().msg_id) {
            return;
        }
        let entered = self.span.enter();
        match parsed {
            Parsed::Message(message) => {
                let event = self.collector.iopub(message.msg_type(), &message.content, &message.header.date);
                event.into_iter().for_each(|event| self.tell(event));
            }
            Parsed::Elided { header, .. } => self.collector.left_out(&header.msg_type),
        }
        drop(entered);
        self.note_half();
    }

    /// Takes a message of this cell from the recording.
    pub(super) fn recorded(&mut self, parsed: &Parsed) {
        self.iopub(parsed);
        self.recorded.insert(parsed.header().msg_id.clone());
    }

    pub(super) fn was_heard(&self) -> bool {
        self.heard
    }

    /// Whether the kernel has taken it up. Before, it may not be ready to be interrupted.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether an earlier controller sent it.
    pub(super) fn is_recovered(&self) -> bool {
        self.recovered
    }

    /// The reply went to nobody.
    pub(super) fn reply_is_lost(&mut self) {
        self.reply_lost = true;
        self.note_half();
    }

    /// Takes its `execute_reply`.
    pub(super) fn reply(&mut self, parsed: &Parsed) {
        self.last_message = Instant::now();
        match parsed {
            Parsed::Message(message) => self.collector.reply(&message.content),
            Parsed::Elided { .. } => self.reply_lost = true,
        }
        self.note_half();
    }

    /// A request that was sent on shell after this cell has been answered.
    pub(super) fn later_reply(&mut self, parent: &str, is_nudge: bool) {
        if (is_nudge || self.probe.as_deref() == Some(parent)) && !self.collector.has_reply() {
            self.reply_is_lost();
        }
    }

    /// The container is paused, and the cell with it.
    pub(super) fn paused(&self, container: String) {
        self.span.in_scope(|| tracing::warn!(container, "the container is paused"));
        self.tell(Event::Paused { container });
    }

    /// Says at the end of stderr that the container was killed while it was paused.
    pub(super) fn killed_in_a_pause(&mut self) {
        let note = self.collector.note("cellblock: the container was paused, and was killed when the time was up");
        self.tell(note);
    }

    fn tell(&self, event: Event) {
        if let Some(events) = &self.cell.events {
            events.send(event);
        }
    }

    pub(super) fn probed(&mut self, id: String) {
        self.probe = Some(id);
    }

    /// Both reply and idle have come; or idle has, and the reply never will. After `exit()` the kernel's end is waited for, too.
    pub(super) fn is_complete(&self) -> bool {
        !self.collector.asks_exit() && self.collector.is_idle() && (self.collector.has_reply() || self.reply_lost)
    }

    /// How it ended, where its messages do not say so.
    pub(super) fn ending(&self) -> (Option<Status>, Option<Rung>) {
        match self.cause {
            Some(Cause::TimedOut) => (Some(Status::TimedOut), Some(Rung::Interrupt)),
            Some(Cause::Interrupted) if self.ended_by_interrupt() => (Some(Status::Interrupted), Some(Rung::Interrupt)),
            _ => (None, None),
        }
    }

    /// Whether the interrupt ended the code: by its exception, or by taking the reply with it.
    fn ended_by_interrupt(&self) -> bool {
        // A top-level `await` that is interrupted ends as a cancelled task.
        self.reply_lost || matches!(self.collector.ename(), Some("KeyboardInterrupt" | "CancelledError"))
    }

    pub(super) fn interrupted(&mut self, cause: Cause, grace: Duration) {
        if cause == Cause::TimedOut {
            self.grace_end = Some(Instant::now() + grace);
        }
        // A timeout says more than an interrupt that came before it.
        if self.cause.is_none() || cause == Cause::TimedOut {
            self.cause = Some(cause);
        }
        self.input = None;
    }

    /// Whether the caller has gone and the cell is to be interrupted for it.
    pub(super) fn is_dropped(&self) -> bool {
        !self.abandoned && self.cell.on_drop == OnDrop::Interrupt && self.cell.reply.is_closed()
    }

    pub(super) fn due(&self, now: Instant) -> Option<Due> {
        match self.grace_end {
            Some(end) if now >= end => return Some(Due::Grace),
            None if now >= self.deadline && self.half_since.is_none() => return Some(Due::Timeout),
            _ => {}
        }
        if self.half_wait_end().is_some_and(|end| now >= end) {
            return Some(Due::Complete);
        }
        if self.needs_probe() && now >= self.last_message + PROBE_AFTER {
            return Some(Due::Probe);
        }
        self.next_look().is_some_and(|look| now >= look).then_some(Due::Look)
    }

    /// When [`due`](Self::due) has to be asked again.
    pub(super) fn next_due(&self) -> Instant {
        let end = self.next_end();
        self.next_look().map_or(end, |look| look.min(end))
    }

    fn next_look(&self) -> Option<Instant> {
        self.silence.next_look(self.last_message)
    }

    fn next_end(&self) -> Instant {
        let Some(mut end) = self.half_wait_end() else { return self.grace_end.unwrap_or(self.deadline) };
        if self.needs_probe() {
            end = end.min(self.last_message + PROBE_AFTER);
        }
        self.grace_end.map_or(end, |grace| grace.min(end))
    }

    fn note_half(&mut self) {
        if self.collector.is_idle() || self.collector.has_reply() || self.reply_lost {
            self.half_since.get_or_insert(self.last_message);
        }
    }

    /// When the other half is no longer waited for. Messages put that off, but not for ever: a kernel can go on sending.
    fn half_wait_end(&self) -> Option<Instant> {
        let latest = self.half_since?.max(self.deadline);
        Some(self.last_message.min(latest) + HALF_WAIT)
    }

    /// Its idle has come, and its reply still can.
    pub(super) fn lacks_reply(&self) -> bool {
        self.collector.is_idle() && !self.collector.has_reply() && !self.reply_lost
    }

    fn needs_probe(&self) -> bool {
        self.lacks_reply() && self.probe.is_none()
    }

    /// Gives the caller an error in place of a result.
    pub(super) fn fail(self, error: Error) {
        let Cell { reply, events, .. } = *self.cell;
        drop(events);
        let _ = reply.send(Err(error));
    }

    /// Gives the result to the caller, once spilled text is on the disk.
    pub(super) fn finish(mut self, status: Option<Status>, state: State, rung: Option<Rung>, after: Usage) {
        self.collector.show_pages().into_iter().for_each(|event| self.tell(event));
        let cpu = after.cpu.zip(self.before.cpu).map(|(after, before)| after.saturating_sub(before));
        let ending = Ending {
            status,
            state,
            rung,
            queued: self.queued,
            total: self.cell.submitted.elapsed(),
            usage: Usage { cpu, ..after },
        };
        self.span.in_scope(|| tracing::debug!(total = ?ending.total, ?rung, ?state, "ended"));
        let Cell { reply, events, .. } = *self.cell;
        let finished = self.collector.finish(ending);
        tokio::spawn(async move {
            let execution = finished.await;
            // The stream of events ends before the result that it ends with.
            drop(events);
            let _ = reply.send(Ok(execution));
        });
    }
}
