//! How long an execution took by the kernel's own clock: the dates in the headers of its status messages.

use std::time::Duration;

use jiff::Timestamp;

use crate::protocol::timestamp;

/// The dates of busy and idle.
#[derive(Debug, Default)]
pub(super) struct KernelClock {
    busy_seen: bool,
    busy: Option<Timestamp>,
    idle: Option<Timestamp>,
}

impl KernelClock {
    pub(super) fn busy(&mut self, date: &str) {
        if !self.busy_seen {
            self.busy_seen = true;
            self.busy = timestamp(date);
        }
    }

    pub(super) fn idle(&mut self, date: &str) {
        self.idle = self.idle.or_else(|| timestamp(date));
    }

    /// None where a date is missing or cannot be read, or where the clock went backwards.
    pub(super) fn elapsed(&self) -> Option<Duration> {
        self.idle?.duration_since(self.busy?).try_into().ok()
    }
}
