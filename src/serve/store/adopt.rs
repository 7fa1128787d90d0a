//! Taking over the sessions that earlier servers have given out.

use std::sync::Arc;
use std::time::Duration;

use cellblock::Session;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::kept::{Kept, Known};
use super::tasks::{FIRST_PAUSE, LONGEST_PAUSE};
use super::{Filling, Slot, Slots, Store, no_such_session};
use crate::serve::identifier::Identifier;
use crate::serve::refusal::{Code, Refusal};

/// What cannot be taken hold of for so long is tried again later.
const PATIENCE: Duration = Duration::from_secs(20);

impl Store {
    /// Takes over the sessions that earlier servers have given out. Returns once it was tried with each; what cannot be had yet, or where no engine
    /// answers, is tried again meanwhile.
    pub(super) async fn adopt(self: &Arc<Self>) {
        // A server that is killed at once has made names that the next one knows.
        self.write_record().await;
        if !self.adopt_what_is_there().await {
            tokio::spawn(Arc::clone(self).adopt_the_rest());
        }
    }

    async fn adopt_the_rest(self: Arc<Self>) {
        let mut pause = FIRST_PAUSE;
        loop {
            sleep(pause).await;
            if self.is_draining() || self.adopt_what_is_there().await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether there is nothing left to do.
    async fn adopt_what_is_there(self: &Arc<Self>) -> bool {
        let Some(kept) = &self.kept else { return true };
        if self.engine().await.is_err() {
            tracing::warn!("no engine answers: the sessions of an earlier server are taken over once one does");
            return false;
        }
        let attempts: Vec<_> = {
            let mut sessions = self.lock();
            let left = |(identifier, slot): (&Identifier, &Slot)| match slot {
                Slot::Left(known) => Some((identifier.clone(), Arc::clone(known))),
                _ => None,
            };
            let left: Vec<_> = sessions.iter().filter_map(left).collect();
            left.into_iter().map(|(identifier, known)| self.take_over(&mut sessions, &identifier, known)).collect()
        };
        for mut outcome in attempts {
            let _ = outcome.changed().await;
        }
        let rest =
            self.lock().values().any(|slot| matches!(slot, Slot::Left(_) | Slot::Starting { left: Some(_), .. }));
        self.end_strays(kept).await && !rest
    }

    /// Ends what earlier servers started and nobody was given, or is not known to have been. Whether it could be looked for.
    async fn end_strays(&self, kept: &Kept) -> bool {
        let Ok(engine) = self.engine().await else { return false };
        let Ok(all) = Session::list(engine.as_ref()).await else { return false };
        let (prefix, own) = (kept.prefix(), kept.own_prefix());
        for stray in all {
            let is_ours = stray.name.starts_with(&prefix) && !stray.name.starts_with(&own);
            if is_ours && !kept.has(&stray.name) {
                let _ = Session::remove(engine.as_ref(), &stray.name).await;
            }
        }
        true
    }

    /// Takes hold of a session that an earlier server has given out; goes on where the one who asked has gone.
    pub(super) fn take_over(
        self: &Arc<Self>,
        sessions: &mut Slots,
        identifier: &Identifier,
        known: Arc<Known>,
    ) -> watch::Receiver<Option<Refusal>> {
        let (filling, outcome) = Filling::begin(self, sessions, identifier, Some(Arc::clone(&known)));
        let (store, identifier) = (Arc::clone(self), identifier.clone());
        tokio::spawn(async move {
            match store.attach(&known).await {
                Ok(Some(session)) => {
                    tracing::info!(session = known.name, "a session was taken over");
                    filling.fill(known.entry(identifier, session));
                }
                Ok(None) => {
                    tracing::info!(session = known.name, "a session of an earlier server has ended");
                    filling.forget();
                }
                Err(refusal) => {
                    tracing::warn!(session = known.name, error = refusal.message(), "a session is not taken over yet");
                    filling.refuse(refusal);
                }
            }
        });
        outcome
    }

    /// None if it has ended. Whatever else is in the way may pass, and the session goes on meanwhile, for its own idle time.
    async fn attach(&self, known: &Known) -> Result<Option<Session>, Refusal> {
        let engine = self.engine().await?;
        let attach = Session::attach(known.name.clone()).engine(engine).timeout(self.config.timeout);
        match timeout(PATIENCE, attach.into_future()).await {
            Ok(Ok(session)) => Ok(Some(session)),
            Ok(Err(error)) if error.is_no_such_session() || error.is_session_gone() => Ok(None),
            Ok(Err(error)) if error.is_engine_unreachable() => Err(error.into()),
            Ok(Err(error)) => Err(Refusal::from(error).with_code(Code::SessionFailed)),
            Err(_) => Err(not_held_yet()),
        }
    }

    /// Ends a session that this server has not taken hold of.
    pub(super) async fn end_left(&self, identifier: &Identifier, known: &Arc<Known>) -> Result<(), Refusal> {
        let engine = self.engine().await?;
        let ended = Session::remove(engine.as_ref(), &known.name).await;
        if let Err(error) = &ended
            && !error.is_no_such_session()
        {
            return Err(error.into());
        }
        let mut sessions = self.lock();
        if matches!(sessions.get(identifier), Some(Slot::Left(same)) if Arc::ptr_eq(same, known)) {
            sessions.remove(identifier);
        }
        drop(sessions);
        self.changed();
        ended.map_err(|_| no_such_session())
    }
}

/// For calls that need it, and make none.
pub(super) fn not_held_yet() -> Refusal {
    Refusal::new(Code::SessionFailed, "the session is an earlier server's, and this one could not take hold of it yet")
}
