//! The driver's end: what becomes of the container, and the word to everybody who still waits.

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::sleep;

use super::relink::cannot_learn;
use super::{Driver, End};
use crate::error::{Error, Kind, Ran};
use crate::execution::{State, Status};
use crate::kernel::command::Command;
use crate::kernel::container::Container;
use crate::kernel::interrupt::{Interrupt, RETRY, found_no_code};

/// A bridge answers within a millisecond; one that does not is not waited for.
const SETTLE_WAIT: Duration = Duration::from_secs(1);

impl<C: Container> Driver<C> {
    /// A cell whose caller is gone, or has asked for an interrupt, must not go on without us: the signal is left to the bridge, which
    /// does not send it twice.
    async fn leave_running_or_interrupt(&mut self) {
        let Some(running) = &self.running else { return };
        if !running.is_dropped() && self.interrupt.is_none() {
            return;
        }
        let request = self.interrupt.as_ref().and_then(Interrupt::request).unwrap_or_default().to_owned();
        let sent = async {
            // The kernel may not have begun the cell.
            while let Ok(Ok(answer)) = self.bridge.interrupt(self.connection.generation, &request).await
                && found_no_code(&answer)
            {
                sleep(RETRY).await;
            }
        };
        if tokio::time::timeout(SETTLE_WAIT, sent).await.is_err() {
            tracing::debug!("the bridge may not have interrupted the cell that was dropped");
        }
    }

    pub(super) async fn end(mut self, end: End) {
        let how = match &end {
            End::Gone(how) | End::Lost(how) => how.clone(),
            End::Stopped(_) => "the session was stopped".to_owned(),
            End::Released(_) => "the session was let go".to_owned(),
            End::Dropped => "the last handle of the session was dropped".to_owned(),
        };
        tracing::info!(how, "the session's driver ends");
        let _ = self.ended.set(how.clone());
        self.commands.close();
        if let End::Released(reply) = end {
            self.refuse_waiting(&how);
            self.leave_running_or_interrupt().await;
            if let Err(error) = self.bridge.settle(SETTLE_WAIT).await {
                tracing::debug!(%error, "the bridge may not know that the last result is out");
            }
            // Whoever waits for this may take hold at once: the lock and the link go first.
            drop(self);
            if let Some(reply) = reply {
                let _ = reply.send(Ok(()));
            }
            return;
        }
        if matches!(end, End::Lost(_)) {
            self.leave_unknown(&how);
            return;
        }
        let usage = self.container.usage();
        let removed = self.container.remove().await;
        if let Some(why) = self.lives_on(&how, &removed) {
            self.leave_unknown(&why);
        } else {
            if let Some(running) = self.running.take() {
                running.finish(Some(Status::ContainerGone(how.clone())), State::ContainerGone, None, usage);
            }
            self.refuse_waiting(&how);
        }
        if let End::Stopped(reply) = end {
            let _ = reply.send(removed);
        }
    }

    /// Why the container may live on after this removal; none if it is gone, or ends with its lease.
    pub(super) fn lives_on(&self, how: &str, removed: &Result<(), Error>) -> Option<String> {
        let error = Chain(removed.as_ref().err()?);
        tracing::warn!(%error, "the container could not be removed");
        let lives = self.settings.detached && self.container.ended().now_or_never().is_none();
        lives.then(|| format!("{how}; and its container could not be removed: {error}"))
    }

    /// Lets go of a session that may live on, with the cell that runs in it.
    fn leave_unknown(mut self, how: &str) {
        self.refuse_waiting(how);
        let running = self.running.take();
        // Whoever is told may take hold at once.
        drop(self);
        if let Some(running) = running {
            let error = cannot_learn(running.was_heard(), how)
                .with_hint("take hold of the session again: the result is kept there");
            running.fail(error);
        }
    }

    /// What waits behind the running cell was never sent.
    fn refuse_waiting(&mut self, how: &str) {
        let sent = std::iter::from_fn(|| self.commands.try_recv().ok());
        let sent = sent.filter_map(|command| if let Command::Run(cell) = command { Some(cell) } else { None });
        for cell in self.queue.drain(..).chain(sent) {
            let error = Error::new(Kind::Gone, "cannot run the cell").with_ran(Ran::Never).with_source(how);
            let _ = cell.reply.send(Err(error));
        }
    }
}

/// An error with its causes, in one line.
pub(super) struct Chain<'a>(pub(super) &'a Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = std::error::Error::source(self.0);
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}
