//! What the store does by itself: refilling the pool, ending what is over, and its own end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cellblock::Session;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{Options, Slot, Store};
use crate::serve::refusal::Refusal;

const SWEEP: Duration = Duration::from_millis(500);
/// A removal that takes longer is the container's own affair: its lease ends it.
const REMOVAL: Duration = Duration::from_secs(20);
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(500);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(15);

impl Store {
    /// Takes over what an earlier server left, and starts the store's own work.
    pub(crate) async fn begin(self: &Arc<Self>) {
        self.adopt().await;
        tokio::spawn(Arc::clone(self).sweep());
        if self.pool.size > 0 {
            tokio::spawn(Arc::clone(self).refill());
        }
        if self.kept.is_some() {
            tokio::spawn(Arc::clone(self).keep_record());
        }
    }

    async fn sweep(self: Arc<Self>) {
        loop {
            sleep(SWEEP).await;
            let mut over = Vec::new();
            self.lock().retain(|_, slot| match slot {
                Slot::Ready(entry) if entry.is_over() => {
                    over.push(Arc::clone(entry));
                    false
                }
                _ => true,
            });
            let stale = self.pool.stale();
            if !stale.is_empty() {
                self.pool.wanted.notify_one();
            }
            if !over.is_empty() {
                self.changed();
            }
            for session in over.into_iter().map(|entry| entry.session.clone()).chain(stale) {
                self.end_soon(session);
            }
        }
    }

    /// Keeps the pool full, some starts at a time, and slower while they fail.
    async fn refill(self: Arc<Self>) {
        let at_once = std::thread::available_parallelism().map_or(2, usize::from);
        let mut starts: JoinSet<Result<(), Refusal>> = JoinSet::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let room = self.config.most.saturating_sub(self.lock().len());
            while !self.is_draining()
                && self.pool.len() + starts.len() < self.pool.size.min(room)
                && starts.len() < at_once
            {
                let store = Arc::clone(&self);
                starts.spawn(async move { store.warm_one().await });
            }
            tokio::select! {
                Some(started) = starts.join_next() => {
                    match started {
                        Ok(Ok(())) => {
                            pause = FIRST_PAUSE;
                            continue;
                        }
                        Ok(Err(refusal)) => {
                            tracing::warn!(code = refusal.code().as_str(), "the pool could not be refilled");
                        }
                        Err(error) => tracing::error!(%error, "a start failed"),
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                () = self.pool.wanted.notified() => {}
                // Room may have come without a word.
                () = sleep(LONGEST_PAUSE) => {}
            }
        }
    }

    async fn warm_one(&self) -> Result<(), Refusal> {
        let _start = self.starts.begin();
        let session = self.starter.start(&Options::default()).await?;
        self.pool.put(session);
        Ok(())
    }

    pub(super) fn end_soon(self: &Arc<Self>, session: Session) {
        let store = Arc::clone(self);
        tokio::spawn(async move { store.end(&session).await });
    }

    pub(super) async fn end(&self, session: &Session) {
        end(session).await;
        self.metrics.sessions_ended.inc();
        self.pool.wanted.notify_one();
    }

    /// No new session from here on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Waits for running calls, at most so long, and then ends all sessions, or lets go of those that are to be kept.
    pub(crate) async fn close(&self, grace: Duration) {
        self.drain();
        let until = Instant::now() + grace;
        while self.is_busy() && Instant::now() < until {
            sleep(Duration::from_millis(20)).await;
        }
        // What is about to be there has to be there before it can be ended.
        let until = Instant::now() + REMOVAL;
        while self.starts.are_under_way() && Instant::now() < until {
            sleep(Duration::from_millis(20)).await;
        }
        let mut ends = JoinSet::new();
        for session in self.pool.empty() {
            ends.spawn(async move { end(&session).await });
        }
        let keep = self.kept.is_some();
        if keep {
            self.write_record().await;
        }
        let slots: Vec<Slot> = self.lock().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            let Slot::Ready(entry) = slot else { continue };
            ends.spawn(async move {
                if keep {
                    let _ = timeout(REMOVAL, entry.session.detach()).await;
                } else {
                    end(&entry.session).await;
                }
            });
        }
        ends.join_all().await;
    }

    fn is_busy(&self) -> bool {
        self.lock().values().any(|slot| match slot {
            Slot::Ready(entry) => entry.is_used(),
            Slot::Starting { .. } => true,
            Slot::Left(_) => false,
        })
    }
}

async fn end(session: &Session) {
    match timeout(REMOVAL, session.stop()).await {
        Ok(Ok(())) => tracing::info!(session = session.name(), "the session was ended"),
        Ok(Err(error)) if error.is_session_gone() => tracing::info!(session = session.name(), "the session has ended"),
        Ok(Err(error)) => tracing::warn!(session = session.name(), %error, "the session could not be ended"),
        Err(_) => tracing::warn!(session = session.name(), "the session is slow to end"),
    }
}
