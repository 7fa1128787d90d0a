//! One session of the store: who it belongs to, when it was used, and how much waits in it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use cellblock::{Error, Session};
use uuid::Uuid;

use crate::serve::identifier::Identifier;
use crate::serve::runs::History;

/// A session with its identifier.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) identifier: Identifier,
    /// Stands for the container: another one each time the session is made anew.
    pub(crate) id: Uuid,
    pub(crate) session: Session,
    pub(crate) created: SystemTime,
    /// The time of a cell that names none, if it is not the server's.
    pub(crate) timeout: Option<Duration>,
    pub(crate) history: Arc<History>,
    born: Instant,
    /// How long it had been given out when this server took it over.
    age_at_birth: Duration,
    lasts: Lasts,
    used: Mutex<Used>,
    calls: AtomicUsize,
}

/// How long a session lasts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lasts {
    pub(crate) idle: Duration,
    pub(crate) life: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Used {
    at: Instant,
    wall: SystemTime,
}

impl Used {
    fn now() -> Self {
        Self { at: Instant::now(), wall: SystemTime::now() }
    }
}

impl Entry {
    /// `age` is how long an earlier server had given it out.
    pub(super) fn new(
        identifier: Identifier,
        session: Session,
        lasts: Lasts,
        timeout: Option<Duration>,
        age: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            identifier,
            id: Uuid::new_v4(),
            session,
            created: SystemTime::now() - age,
            timeout,
            history: Arc::default(),
            born: Instant::now(),
            age_at_birth: age,
            lasts,
            used: Mutex::new(Used::now()),
            calls: AtomicUsize::new(0),
        })
    }

    /// Interrupts all that runs in it: the cell, and scripts and programs beside it.
    pub(crate) async fn interrupt(&self) -> Result<(), Error> {
        self.history.interrupt_scripts();
        self.session.interrupt().await
    }

    pub(super) fn lasts(&self) -> Lasts {
        self.lasts
    }

    /// Now, while a call is under way.
    pub(crate) fn last_used(&self) -> SystemTime {
        if self.is_used() { SystemTime::now() } else { self.used().wall }
    }

    /// When it ends if nobody uses it.
    pub(crate) fn expires(&self) -> SystemTime {
        (self.last_used() + self.lasts.idle).min(self.created + self.lasts.life)
    }

    pub(super) fn is_over(&self) -> bool {
        let idle = !self.is_used() && self.used().at.elapsed() >= self.lasts.idle;
        idle || self.age() >= self.lasts.life || self.session.has_ended()
    }

    fn age(&self) -> Duration {
        self.age_at_birth + self.born.elapsed()
    }

    /// Whether a call is under way.
    pub(super) fn is_used(&self) -> bool {
        self.calls.load(Ordering::Acquire) > 0
    }

    /// Notes a call. Taken under the store's lock, so that no session ends between its being found and its being used.
    pub(super) fn hold(self: &Arc<Self>) -> Held {
        self.calls.fetch_add(1, Ordering::AcqRel);
        self.touch();
        Held(Arc::clone(self))
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Used::now();
    }

    fn used(&self) -> Used {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call to a session, which does not end by idle time while there is one.
#[derive(Debug)]
pub(crate) struct Held(Arc<Entry>);

impl Held {
    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.0
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.0.hold()
    }
}

impl std::ops::Deref for Held {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.touch();
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}
