//! One interrupt: one signal, its nudge, and the barrier that keeps it out of the next cell.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::Error;
use crate::transport::BridgeError;

/// No reply within this: the kernel's control thread is kept from running, and the bridge sends the signal.
const REPLY_WAIT: Duration = Duration::from_millis(200);
/// A request that found no code running is repeated after this: the cell may just have been sent.
const RETRY: Duration = Duration::from_millis(10);
/// Once the shell answers again, a reply that is still due gets this long: a late `interrupt_request` would hit the next cell.
const LATE_REPLY_WAIT: Duration = Duration::from_secs(1);
/// The barrier is lifted after this, whatever came: the next cell has its own timeout.
const BARRIER_LIMIT: Duration = Duration::from_secs(5);

/// An interrupt under way, from its request to the end of its barrier.
#[derive(Debug)]
pub(super) struct Interrupt {
    /// The `interrupt_request` on control.
    request: String,
    begun: Instant,
    sent: Instant,
    replied: bool,
    /// The kernel had not taken up the cell yet; when to ask again.
    again: Option<Instant>,
    /// The bridge was asked to send SIGINT; its acknowledgement, while it is awaited.
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
    pub(super) fn new(request: String) -> Self {
        let now = Instant::now();
        Self {
            request,
            begun: now,
            sent: now,
            replied: false,
            again: None,
            signalled: false,
            acknowledgement: None,
            acknowledged: false,
            nudge: None,
            nudge_answered: None,
            waiters: Vec::new(),
        }
    }

    /// Its message id.
    pub(super) fn request(&self) -> &str {
        &self.request
    }

    /// Takes a reply on control; true if it was this interrupt's. One that found no code running is asked for again.
    pub(super) fn reply(&mut self, parent: &str, idle: bool) -> bool {
        let ours = parent == self.request;
        if ours && idle {
            self.again = Some(Instant::now() + RETRY);
        } else {
            self.replied |= ours;
        }
        ours
    }

    /// Whether it is time to ask again.
    pub(super) fn needs_repeat(&self, now: Instant) -> bool {
        self.again.is_some_and(|again| now >= again)
    }

    /// It was asked for again.
    pub(super) fn repeated(&mut self, request: String) {
        self.request = request;
        self.sent = Instant::now();
        self.again = None;
    }

    /// The cell that it was for has ended: there is nothing to interrupt any more.
    pub(super) fn cell_ended(&mut self) {
        self.replied |= self.again.take().is_some();
    }

    /// The bridge has sent the signal, or could not.
    pub(super) fn signal_sent(&mut self) {
        self.acknowledgement = None;
        self.acknowledged = true;
    }

    /// Whether it is time for the bridge to send the signal.
    pub(super) fn needs_signal(&self, now: Instant) -> bool {
        !self.replied && !self.signalled && self.again.is_none() && now >= self.sent + REPLY_WAIT
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
        if now >= self.begun + BARRIER_LIMIT {
            return true;
        }
        match self.nudge_answered {
            Some(answered) => self.replied || now >= answered + LATE_REPLY_WAIT,
            None => false,
        }
    }

    /// When to look again.
    pub(super) fn next_look(&self) -> Instant {
        let limit = self.begun + BARRIER_LIMIT;
        if let Some(again) = self.again {
            limit.min(again)
        } else if !self.replied && !self.signalled {
            limit.min(self.sent + REPLY_WAIT)
        } else if let Some(answered) = self.nudge_answered {
            limit.min(answered + LATE_REPLY_WAIT)
        } else {
            limit
        }
    }
}
