//! Sessions that were started ahead.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cellblock::Session;
use tokio::sync::Notify;

/// A warm session waits at most so long, and is replaced then: its container's maximum life began with its start.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Started sessions that nobody has used. What is taken never comes back.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(super) size: usize,
    warm: Mutex<VecDeque<Warm>>,
    pub(super) wanted: Notify,
}

#[derive(Debug)]
struct Warm {
    session: Session,
    since: Instant,
}

impl Warm {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < LONGEST_WAIT && !self.session.has_ended()
    }
}

impl Pool {
    pub(super) fn new(size: usize) -> Self {
        Self { size, warm: Mutex::default(), wanted: Notify::new() }
    }

    /// Takes one out. A stale one is left to [`stale`](Self::stale).
    pub(super) fn take(&self) -> Option<Session> {
        let mut warm = self.lock();
        let at = warm.iter().position(Warm::is_fresh)?;
        let taken = warm.remove(at)?;
        drop(warm);
        self.wanted.notify_one();
        Some(taken.session)
    }

    pub(super) fn put(&self, session: Session) {
        self.lock().push_back(Warm { session, since: Instant::now() });
    }

    /// Takes out those that nobody is to get any more.
    pub(super) fn stale(&self) -> Vec<Session> {
        let mut warm = self.lock();
        let (fresh, stale) = std::mem::take(&mut *warm).into_iter().partition(Warm::is_fresh);
        *warm = fresh;
        stale.into_iter().map(|warm: Warm| warm.session).collect()
    }

    pub(super) fn empty(&self) -> Vec<Session> {
        std::mem::take(&mut *self.lock()).into_iter().map(|warm| warm.session).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Warm>> {
        self.warm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
