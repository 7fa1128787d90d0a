//! The one store of sessions behind both APIs: from an identifier to its session.

mod entry;
mod kept;
mod memory;
mod options;
mod pool;
mod starting;
mod tasks;

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use cellblock::{Engine, Session};
use futures_util::FutureExt as _;
use tokio::sync::watch;

pub(crate) use self::entry::{Entry, Held};
use self::kept::Kept;
pub(crate) use self::options::Options;
use self::pool::Pool;
use self::starting::{Starter, Starts};
use super::config::Sessions;
use super::identifier::Identifier;
use super::metrics::Metrics;
use super::refusal::{Code, Refusal};

/// Sessions by identifier, and those that wait for one.
#[derive(Debug)]
pub(crate) struct Store {
    config: Sessions,
    starter: Starter,
    starts: Starts,
    pool: Pool,
    kept: Option<Arc<Kept>>,
    sessions: Mutex<HashMap<Identifier, Slot>>,
    draining: AtomicBool,
    pub(crate) metrics: Arc<Metrics>,
}

#[derive(Debug)]
enum Slot {
    /// Everybody who asks meanwhile waits for the same start.
    Starting(watch::Receiver<Option<Refusal>>),
    Ready(Arc<Entry>),
}

/// A session that is there, and how long it took if it was made for this call.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) held: Held,
    pub(crate) made_in: Option<Duration>,
}

impl Store {
    pub(crate) fn new(config: Sessions, keep: Option<&Path>, metrics: Arc<Metrics>) -> Result<Arc<Self>> {
        let kept = keep.map(Kept::open).transpose()?;
        let prefix = kept.as_ref().map_or_else(|| "serve-".to_owned(), |kept| kept.prefix());
        let store = Arc::new(Self {
            starter: Starter::new(config.clone(), kept.is_some(), prefix),
            starts: Starts::default(),
            pool: Pool::new(config.warm),
            kept,
            sessions: Mutex::default(),
            draining: AtomicBool::new(false),
            metrics,
            config,
        });
        Ok(store)
    }

    /// The session of this identifier, made if there is none.
    pub(crate) async fn open(self: &Arc<Self>, identifier: &Identifier) -> Result<Opened, Refusal> {
        self.find_or_make(identifier, &Options::default()).await
    }

    /// A new session with options of its own.
    pub(crate) async fn create(
        self: &Arc<Self>,
        identifier: &Identifier,
        options: &Options,
    ) -> Result<Opened, Refusal> {
        options.check(&self.config)?;
        if let Some(Slot::Ready(entry)) = self.lock().get(identifier)
            && !entry.is_over()
        {
            return Err(Refusal::new(Code::Conflict, "there is a session with this identifier already"));
        }
        let opened = self.find_or_make(identifier, options).await?;
        match opened.made_in {
            Some(_) => Ok(opened),
            None => Err(Refusal::new(Code::Conflict, "a session with this identifier was made at the same time")),
        }
    }

    async fn find_or_make(self: &Arc<Self>, identifier: &Identifier, options: &Options) -> Result<Opened, Refusal> {
        let begun = Instant::now();
        let mut made = false;
        loop {
            let mut outcome = {
                let mut sessions = self.lock();
                match sessions.get(identifier) {
                    // One that was made for this call is its own, also where it is over at once: else there would be no end of making.
                    Some(Slot::Ready(entry)) if made || !entry.is_over() => {
                        let made_in = made.then(|| begun.elapsed());
                        return Ok(Opened { held: entry.hold(), made_in });
                    }
                    Some(Slot::Starting(outcome)) => outcome.clone(),
                    over => {
                        let known = usize::from(over.is_some());
                        self.admit(sessions.len() - known)?;
                        made = true;
                        if let Some(session) = self.warm(options) {
                            let entry = self.entry(identifier, session, options);
                            self.put(&mut sessions, Arc::clone(&entry));
                            let made_in = begun.elapsed();
                            self.metrics.handed_over(made_in);
                            return Ok(Opened { held: entry.hold(), made_in: Some(made_in) });
                        }
                        let (sender, outcome) = watch::channel(None);
                        let slot = Slot::Starting(outcome.clone());
                        if let Some(Slot::Ready(over)) = sessions.insert(identifier.clone(), slot) {
                            self.end_soon(over);
                        }
                        tokio::spawn(Arc::clone(self).make(identifier.clone(), options.clone(), sender));
                        outcome
                    }
                }
            };
            // An error means that the sender is gone, and the map knows more.
            let _ = outcome.changed().await;
            if let Some(refusal) = outcome.borrow().clone() {
                return Err(refusal);
            }
        }
    }

    /// Goes on where the one who asked has gone: the session is there for the next call.
    async fn make(self: Arc<Self>, identifier: Identifier, options: Options, outcome: watch::Sender<Option<Refusal>>) {
        let _start = self.starts.begin();
        // A fault of ours is not to leave a slot that is never ready.
        let started = AssertUnwindSafe(self.starter.start(&options)).catch_unwind().await;
        match started.unwrap_or_else(|_| Err(Refusal::new(Code::Internal, "this server has a fault"))) {
            Ok(session) => {
                let entry = self.entry(&identifier, session, &options);
                self.put(&mut self.lock(), entry);
            }
            Err(refusal) => {
                tracing::warn!(code = refusal.code().as_str(), "a session could not be started");
                self.lock().remove(&identifier);
                outcome.send_replace(Some(refusal));
            }
        }
    }

    fn put(&self, sessions: &mut HashMap<Identifier, Slot>, entry: Arc<Entry>) {
        tracing::info!(session = entry.session.name(), "a session was given out");
        self.metrics.sessions_made.inc();
        let over = sessions.insert(entry.identifier.clone(), Slot::Ready(entry));
        if let Some(Slot::Ready(over)) = over {
            self.end_soon(over);
        }
        self.changed();
    }

    fn entry(&self, identifier: &Identifier, session: Session, options: &Options) -> Arc<Entry> {
        Entry::new(identifier.clone(), session, options.lasts(&self.config), options.timeout, Duration::ZERO)
    }

    fn warm(&self, options: &Options) -> Option<Session> {
        if options.suits_pool() { self.pool.take() } else { None }
    }

    /// Whether there may be one more than these.
    fn admit(&self, others: usize) -> Result<(), Refusal> {
        if self.draining.load(Ordering::Acquire) {
            return Err(Refusal::new(Code::Draining, "the server is shutting down"));
        }
        if others >= self.config.most {
            return Err(Refusal::new(
                Code::TooManySessions,
                format!("there are {others} sessions, as many as this server allows"),
            ));
        }
        Ok(())
    }

    /// The session of this identifier, if there is one.
    pub(crate) fn find(&self, identifier: &Identifier) -> Result<Held, Refusal> {
        match self.lock().get(identifier) {
            Some(Slot::Ready(entry)) if !entry.is_over() => Ok(entry.hold()),
            _ => Err(no_such_session()),
        }
    }

    /// Ends the session of this identifier. A call that runs in it ends with it.
    pub(crate) async fn remove(&self, identifier: &Identifier) -> Result<(), Refusal> {
        let entry = loop {
            let mut starting = match self.lock().entry(identifier.clone()) {
                MapEntry::Vacant(_) => return Err(no_such_session()),
                MapEntry::Occupied(slot) => match slot.get() {
                    Slot::Ready(entry) => {
                        let entry = Arc::clone(entry);
                        slot.remove();
                        break entry;
                    }
                    Slot::Starting(outcome) => outcome.clone(),
                },
            };
            let _ = starting.changed().await;
        };
        self.changed();
        let known = !entry.is_over();
        self.end(&entry.session).await;
        if known { Ok(()) } else { Err(no_such_session()) }
    }

    /// Forgets a session whose container is gone.
    pub(crate) fn discard(&self, entry: &Arc<Entry>) {
        let mut sessions = self.lock();
        if matches!(sessions.get(&entry.identifier), Some(Slot::Ready(known)) if Arc::ptr_eq(known, entry)) {
            sessions.remove(&entry.identifier);
            drop(sessions);
            self.changed();
        }
    }

    /// All sessions, the oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Entry>> {
        let mut entries: Vec<_> = self
            .lock()
            .values()
            .filter_map(|slot| match slot {
                Slot::Ready(entry) if !entry.is_over() => Some(Arc::clone(entry)),
                _ => None,
            })
            .collect();
        entries.sort_by_key(|entry| (entry.created, entry.id));
        entries
    }

    /// A session that nobody else gets; the caller ends it.
    pub(crate) async fn spare(&self) -> Result<Session, Refusal> {
        self.admit(self.lock().len())?;
        self.starter.start(&Options::default()).await
    }

    pub(crate) fn config(&self) -> &Sessions {
        &self.config
    }

    pub(crate) fn warm_ready(&self) -> usize {
        self.pool.len()
    }

    pub(crate) async fn engine(&self) -> Result<Arc<dyn Engine>, Refusal> {
        self.starter.engine().await
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Identifier, Slot>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_such_session() -> Refusal {
    Refusal::new(Code::SessionNotFound, "there is no session with this identifier")
}
