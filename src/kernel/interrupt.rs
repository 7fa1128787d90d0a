//! One interrupt: one signal, its nudge, and the barrier that keeps it out of the next cell.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::Error;
use crate::protocol::content::InterruptReply;
use crate::transport::BridgeError;

/// The kernel has not said that it has begun the cell: after this it is interrupted all the same.
const BEGIN_WAIT: Duration = Duration::from_secs(1);
/// No reply within this: the kernel's control thread is kept from running, and the bridge sends the signal.
const REPLY_WAIT: Duration = Duration::from_millis(200);
/// What found no code running is repeated after this: the cell may be about to end, or to begin.
pub(super) const RETRY: Duration = Duration::from_millis(10);
/// Once the shell answers again, a reply that is still due gets this long: a late `interrupt_request` would hit the next cell.
const LATE_REPLY_WAIT: Duration = Duration::from_secs(1);
/// The barrier is lifted after this, whatever came: the next cell has its own timeout.
const BARRIER_LIMIT: Duration = Duration::from_secs(5);

/// An interrupt under way, from the wish for it to the end of its barrier.
#[derive(Debug)]
pub(super) struct Interrupt {
    /// The `interrupt_request` on control, once it is sent.
    request: Option<String>,
    sent: Instant,
    replied: bool,
    /// Code to interrupt is still waited for; when to ask at the latest.
    ask_at: Option<Instant>,
    /// It is asked for as soon as the kernel has begun the cell. What comes before can be lost.
    awaits_cell: bool,
    /// When the bridge is to send SIGINT.
    signal_at: Instant,
    /// The bridge was asked to; its acknowledgement, while it is awaited.
    signalled: bool,
    pub(super) acknowledgement: Option<oneshot::Receiver<Result<Bytes, BridgeError>>>,
    acknowledged: bool,
    /// The `kernel_info_request` on shell that wakes a kernel out of a top-level `await`.
    nudge: Option<String>,
    nudge_answered: Option<Instant>,
    /// Callers that wait for the signal to have been taken.
    pub(super) waiters: Vec<oneshot::Sender<Result<(), Error>>>,
}

impl Drop for Interrupt {
    /// Whatever became of the signal, the callers' wait is over.
    fn drop(&mut self) {
        for waiter in self.waiters.drain(..) {
            let _ = waiter.send(Ok(()));
        }
    }
}

impl Interrupt {
    /// One that is wanted, and not sent.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            request: None,
            sent: now,
            replied: false,
            ask_at: Some(now + BEGIN_WAIT),
            awaits_cell: true,
            signal_at: now,
            signalled: false,
            acknowledgement: None,
            acknowledged: false,
            nudge: None,
            nudge_answered: None,
            waiters: Vec::new(),
        }
    }

    /// The message id of its request, if it was sent.
    pub(super) fn request(&self) -> Option<&str> {
        self.request.as_deref()
    }

    /// Takes a reply on control; true if it was this interrupt's. One that found no code running is asked for again.
    pub(super) fn reply(&mut self, parent: &str, idle: bool, cell_begun: bool) -> bool {
        let ours = self.request() == Some(parent);
        if ours && idle {
            self.ask_at = Some(Instant::now() + if cell_begun { RETRY } else { BEGIN_WAIT });
            self.awaits_cell = !cell_begun;
        } else {
            self.replied |= ours;
        }
        ours
    }

    /// Whether it is time to ask the kernel, or to ask it again.
    pub(super) fn needs_request(&self, now: Instant, cell_begun: bool) -> bool {
        self.ask_at.is_some_and(|at| now >= at || (cell_begun && self.awaits_cell))
    }

    pub(super) fn requested(&mut self, request: String) {
        self.request = Some(request);
        self.sent = Instant::now();
        self.ask_at = None;
        self.awaits_cell = false;
        self.signal_at = self.sent + REPLY_WAIT;
    }

    /// The cell that it was for has ended: there is nothing to interrupt any more.
    pub(super) fn cell_ended(&mut self) {
        self.replied |= self.ask_at.take().is_some();
    }

    /// The bridge has sent the signal, or could not, or has found no code running.
    pub(super) fn signal_sent(&mut self, idle: bool) {
        self.acknowledgement = None;
        if idle {
            self.signalled = false;
            self.signal_at = Instant::now() + REPLY_WAIT;
        } else {
            self.acknowledged = true;
        }
    }

    /// Whether it is time for the bridge to send the signal.
    pub(super) fn needs_signal(&self, now: Instant) -> Option<&str> {
        let due = !self.replied && !self.signalled && self.ask_at.is_none() && now >= self.signal_at;
        self.request().filter(|_| due)
    }

    pub(super) fn signalled(&mut self, acknowledgement: oneshot::Receiver<Result<Bytes, BridgeError>>) {
        self.signalled = true;
        self.acknowledgement = Some(acknowledgement);
    }

    /// The signal has been taken one way or the other.
    pub(super) fn is_taken(&self) -> bool {
        self.replied || self.acknowledged
    }

    pub(super) fn needs_nudge(&self) -> bool {
        self.is_taken() && self.nudge.is_none()
    }

    pub(super) fn nudged(&mut self, id: String) {
        self.nudge = Some(id);
    }

    /// Takes a reply on shell; true if it answers the nudge: whatever was before it on shell has been dealt with.
    pub(super) fn nudge_reply(&mut self, parent: &str) -> bool {
        let ours = self.nudge.as_deref() == Some(parent);
        if ours {
            self.nudge_answered = Some(Instant::now());
        }
        ours
    }

    /// Whether the next cell may be sent.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        if self.ask_at.is_some() {
            return false;
        }
        if now >= self.sent + BARRIER_LIMIT {
            return true;
        }
        match self.nudge_answered {
            Some(answered) => self.replied || now >= answered + LATE_REPLY_WAIT,
            None => false,
        }
    }

    /// When to look again.
    pub(super) fn next_look(&self) -> Instant {
        let limit = self.sent + BARRIER_LIMIT;
        if let Some(at) = self.ask_at {
            at
        } else if !self.replied && !self.signalled {
            limit.min(self.signal_at)
        } else if let Some(answered) = self.nudge_answered {
            limit.min(answered + LATE_REPLY_WAIT)
        } else {
            limit
        }
    }
}

/// Whether the bridge answers that no code was running, and has sent nothing.
pub(super) fn found_no_code(answer: &[u8]) -> bool {
    serde_json::from_slice::<InterruptReply>(answer).unwrap_or_default().idle
}
