//! The one store of sessions behind both APIs: from an identifier to its session.

mod adopt;
mod entry;
mod kept;
mod memory;
mod options;
mod pool;
mod slot;
mod starting;
mod tasks;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use cellblock::{Engine, Session};

pub(crate) use self::entry::{Entry, Held};
use self::kept::Kept;
pub(crate) use self::options::Options;
use self::pool::Pool;
use self::slot::{Filling, Slot, Slots};
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
    sessions: Mutex<Slots>,
    draining: AtomicBool,
    pub(crate) metrics: Arc<Metrics>,
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
        let prefix = kept.as_ref().map_or_else(|| "serve-".to_owned(), |kept| kept.own_prefix());
        let left = kept.as_ref().map(|kept| kept.left()).unwrap_or_default();
        let store = Arc::new(Self {
            starter: Starter::new(config.clone(), kept.is_some(), prefix),
            starts: Starts::default(),
            pool: Pool::new(config.warm),
            kept,
            sessions: Mutex::new(left),
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
                    Some(Slot::Starting { outcome, .. }) => outcome.clone(),
                    Some(Slot::Left(known)) => {
                        self.go_on()?;
                        let known = Arc::clone(known);
                        self.take_over(&mut sessions, identifier, known)
                    }
                    over => {
                        let known = usize::from(over.is_some());
                        self.admit(sessions.len() - known)?;
                        made = true;
                        if let Some(session) = self.warm(options) {
                            let entry = self.give_out(identifier, session, options);
                            self.put(&mut sessions, Arc::clone(&entry));
                            let made_in = begun.elapsed();
                            self.metrics.handed_over(made_in);
                            return Ok(Opened { held: entry.hold(), made_in: Some(made_in) });
                        }
                        let (filling, outcome) = Filling::begin(self, &mut sessions, identifier, None);
                        tokio::spawn(Arc::clone(self).make(identifier.clone(), options.clone(), filling));
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
    async fn make(self: Arc<Self>, identifier: Identifier, options: Options, filling: Filling) {
        match self.starter.start(&options).await {
            Ok(session) => filling.fill(self.give_out(&identifier, session, &options)),
            Err(refusal) => {
                tracing::warn!(code = refusal.code().as_str(), "a session could not be started");
                filling.refuse(refusal);
            }
        }
    }

    fn put(self: &Arc<Self>, sessions: &mut Slots, entry: Arc<Entry>) {
        let over = sessions.insert(entry.identifier.clone(), Slot::Ready(entry));
        if let Some(Slot::Ready(over)) = over {
            self.end_soon(over.session.clone());
        }
        self.changed();
    }

    fn give_out(&self, identifier: &Identifier, session: Session, options: &Options) -> Arc<Entry> {
        tracing::info!(session = session.name(), "a session was given out");
        self.metrics.sessions_made.inc();
        Entry::new(identifier.clone(), session, options.lasts(&self.config), options.timeout, Duration::ZERO)
    }

    fn warm(&self, options: &Options) -> Option<Session> {
        if options.suits_pool() { self.pool.take() } else { None }
    }

    fn go_on(&self) -> Result<(), Refusal> {
        if self.is_draining() {
            return Err(Refusal::new(Code::Draining, "the server is shutting down"));
        }
        Ok(())
    }

    /// Whether there may be one more than these.
    fn admit(&self, others: usize) -> Result<(), Refusal> {
        self.go_on()?;
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
            Some(Slot::Left(_) | Slot::Starting { left: Some(_), .. }) => Err(adopt::not_held_yet()),
            _ => Err(no_such_session()),
        }
    }

    /// Ends the session of this identifier. A call that runs in it ends with it.
    pub(crate) async fn remove(&self, identifier: &Identifier) -> Result<(), Refusal> {
        let entry = loop {
            let slot = self.lock().get(identifier).cloned().ok_or_else(no_such_session)?;
            match slot {
                Slot::Ready(entry) if self.discard(&entry) => break entry,
                Slot::Ready(_) => {}
                Slot::Left(known) => return self.end_left(identifier, &known).await,
                Slot::Starting { mut outcome, .. } => _ = outcome.changed().await,
            }
        };
        let known = !entry.is_over();
        self.end(&entry.session).await;
        if known { Ok(()) } else { Err(no_such_session()) }
    }

    /// Forgets a session, such as one whose container is gone. Whether it was known.
    pub(crate) fn discard(&self, entry: &Arc<Entry>) -> bool {
        let mut sessions = self.lock();
        let known = matches!(sessions.get(&entry.identifier), Some(Slot::Ready(known)) if Arc::ptr_eq(known, entry));
        if known {
            sessions.remove(&entry.identifier);
            drop(sessions);
            self.changed();
        }
        known
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

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_such_session() -> Refusal {
    Refusal::new(Code::SessionNotFound, "there is no session with this identifier")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::config::Ceiling;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    pub(super) fn store(keep: Option<&Path>) -> Arc<Store> {
        let config = Sessions {
            template: Session::builder(),
            ceiling: Ceiling { memory: 1, cpus: 1.0, pids: 1 },
            most: 1,
            warm: 0,
            idle: DAY,
            life: DAY,
            timeout: DAY,
            queue: 1,
            memory_reserve: 0,
        };
        Store::new(config, keep, Arc::new(Metrics::new())).unwrap()
    }
}
