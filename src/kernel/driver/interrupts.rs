//! Interrupts, and the clock that leads to them.

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Driver, End};
use crate::Error;
use crate::execution::{Death, Rung, Status};
use crate::kernel::container::Container;
use crate::kernel::interrupt::{Interrupt, found_no_code};
use crate::kernel::running::{Cause, Due, Running};
use crate::kernel::silence::Looked;
use crate::protocol::content::Empty;
use crate::transport::{BridgeError, Channel};

impl<C: Container> Driver<C> {
    /// Interrupts the running cell once, unless an interrupt is under way.
    pub(super) async fn start_interrupt(&mut self, waiter: Option<oneshot::Sender<Result<(), Error>>>) {
        self.interrupt.get_or_insert_with(Interrupt::new).waiters.extend(waiter);
        self.advance_interrupt().await;
    }

    /// Interrupts the cell that was just sent, if that was asked for while it waited.
    pub(super) async fn interrupt_begun(&mut self) {
        for waiter in std::mem::take(&mut self.interrupt_next) {
            if let Some(running) = &mut self.running {
                running.interrupted(Cause::Interrupted, self.settings.grace);
            }
            self.start_interrupt(Some(waiter)).await;
        }
    }

    pub(super) async fn advance_interrupt(&mut self) {
        let Some(interrupt) = &mut self.interrupt else { return };
        match self.running.as_ref().map(Running::has_begun) {
            Some(begun) if interrupt.needs_request(Instant::now(), begun) => {
                let request = self.connection.request(Channel::Control, "interrupt_request", &Empty {}).await;
                let request = request.unwrap_or_else(|error| {
                    tracing::warn!(%error, "the interrupt is left to the bridge");
                    // The id of none.
                    String::new()
                });
                interrupt.requested(request);
            }
            None if interrupt.request().is_none() => {
                self.interrupt = None;
                return;
            }
            None => interrupt.cell_ended(),
            Some(_) => {}
        }
        if let Some(request) = interrupt.needs_signal(Instant::now()) {
            let sent = self.bridge.interrupt(self.connection.generation, request);
            interrupt.signalled(sent);
        }
        if interrupt.needs_nudge() {
            for waiter in interrupt.waiters.drain(..) {
                let _ = waiter.send(Ok(()));
            }
            match self.connection.request(Channel::Shell, "kernel_info_request", &Empty {}).await {
                Ok(id) => interrupt.nudged(id),
                Err(error) => tracing::warn!(%error, "the nudge did not reach the kernel"),
            }
        }
    }

    /// The bridge has answered.
    pub(super) async fn signalled(&mut self, answer: Result<Bytes, BridgeError>) {
        if let Err(error) = &answer {
            tracing::debug!(%error, "the bridge could not interrupt the kernel");
        }
        if let Some(interrupt) = &mut self.interrupt {
            interrupt.signal_sent(answer.is_ok_and(|answer| found_no_code(&answer)));
        }
        self.advance_interrupt().await;
    }

    pub(super) fn lift_barrier(&mut self) {
        if self.interrupt.as_ref().is_some_and(|interrupt| interrupt.is_over(Instant::now())) {
            self.interrupt = None;
        }
    }

    pub(super) async fn caller_gone(&mut self) {
        let Some(running) = &mut self.running else { return };
        let interrupt = running.is_dropped();
        running.abandoned = true;
        if interrupt {
            running.interrupted(Cause::Interrupted, self.settings.grace);
            self.start_interrupt(None).await;
        }
    }

    pub(super) fn looked(&mut self, looked: Looked) {
        if let Some(running) = &mut self.running
            && let Some(container) = running.silence.take(looked)
        {
            running.paused(container);
        }
    }

    pub(super) async fn timer(&mut self) -> Result<(), End> {
        let now = Instant::now();
        if now >= self.settings.expires {
            return Err(End::Gone("the session's maximum life was over".to_owned()));
        }
        if let Some((until, cut)) = &self.broken
            && now >= *until
        {
            let reason = cut.clone().or_else(|| Some("the kernel closed its channels".to_owned()));
            let death = Death { reason, ..Death::default() };
            return self.replace_kernel(Some(Status::KernelDied(death)), None).await;
        }
        self.advance_interrupt().await;
        self.lift_barrier();
        match self.running.as_ref().and_then(|running| running.due(now)) {
            Some(Due::Timeout) => {
                if let Some(running) = &mut self.running {
                    running.interrupted(Cause::TimedOut, self.settings.grace);
                }
                // An earlier one that the code has swallowed is no reason not to try.
                if self.interrupt.as_ref().is_some_and(Interrupt::is_taken) {
                    self.interrupt = None;
                }
                self.start_interrupt(None).await;
            }
            Some(Due::Grace) => return self.replace_kernel(Some(Status::TimedOut), Some(Rung::KernelRestart)).await,
            Some(Due::Probe) => {
                if let Ok(id) = self.connection.request(Channel::Shell, "kernel_info_request", &Empty {}).await
                    && let Some(running) = &mut self.running
                {
                    running.probed(id);
                }
            }
            Some(Due::Complete) => return self.complete_by_half().await,
            Some(Due::Look) => {
                if let Some(running) = &mut self.running {
                    running.silence.look(&mut self.bridge, self.container.paused());
                }
            }
            None => {}
        }
        Ok(())
    }
}
