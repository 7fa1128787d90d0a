//! The link is lost, and the container may live: its bridge is reached by another one, and the running cell goes on.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::end::Chain;
use super::loss::death;
use super::{Driver, End, Settings};
use crate::error::{Error, Kind, Ran};
use crate::execution::{Death, Rung, Status};
use crate::kernel::connection::Connection;
use crate::kernel::container::Container;
use crate::kernel::recovery::catch_up;
use crate::kernel::running::Running;
use crate::transport::{Bridge, CellReport, Hello};

/// An engine that restarts is back by then; and an owned container that nobody reaches ends itself.
pub(super) const RELINK_WAIT: Duration = Duration::from_secs(10);
pub(super) const RETRY: Duration = Duration::from_millis(200);
/// The running cell's time may be up already: a kernel that is well answers within this.
const KERNEL_WAIT: Duration = Duration::from_secs(3);

impl<C: Container> Driver<C> {
    pub(super) async fn relink(&mut self) -> Result<(), End> {
        let until = Instant::now() + RELINK_WAIT;
        let interrupted = self.interrupt.take().is_some_and(|interrupt| !interrupt.is_taken());
        self.asked.clear();
        loop {
            let hello = self.reach(until).await?;
            let Some(kernel) = hello.kernel.as_ref().filter(|kernel| kernel.generation == self.connection.generation)
            else {
                return self.kernel_was_lost(hello).await;
            };
            let Settings { session, private, ready, grace, .. } = &self.settings;
            // The kernel may be hostile, and greet nobody: that is no reason to answer the cell late.
            let time_left = self.running.as_ref().map_or(*ready, |running| running.time_left(*grace));
            let patience = time_left.max(KERNEL_WAIT).min(*ready);
            match Connection::open(&mut self.bridge, kernel, session, private, patience).await {
                Ok(connection) => {
                    self.connection = connection;
                    self.broken = None;
                    self.closed.clear();
                    self.go_on(&hello, interrupted).await;
                    return Ok(());
                }
                Err(error) if self.bridge.has_ended() => tracing::debug!(%error, "the link was lost again"),
                Err(error) if self.running.as_ref().is_some_and(Running::time_is_up) => {
                    tracing::debug!(%error, "the cell's time is up, and its kernel was not reached again");
                    return self.replace_kernel(Some(Status::TimedOut), Some(Rung::KernelRestart)).await;
                }
                Err(error) => {
                    let reason = Some(format!("it could not be reached again: {error}"));
                    let death = Death { reason, ..Death::default() };
                    return self.replace_kernel(Some(Status::KernelDied(death)), None).await;
                }
            }
        }
    }

    /// Reaches the bridge by another link. What was opened over the lost one has ended with it.
    pub(super) async fn reach(&mut self, until: Instant) -> Result<Hello, End> {
        match reach(&self.container, until).await {
            Ok((bridge, hello)) => {
                tracing::info!("the link to the container was lost and made again");
                self.bridge = bridge;
                Ok(hello)
            }
            Err(Unreached::Lost(how)) if self.settings.detached => Err(End::Lost(how)),
            Err(Unreached::Ended(how) | Unreached::Lost(how)) => Err(End::Gone(how)),
        }
    }

    /// The same kernel runs.
    async fn go_on(&mut self, hello: &Hello, interrupted: bool) {
        let caught_up = self.catch_up(hello.cell.as_ref()).await;
        let busy = hello.kernel.as_ref().is_some_and(|kernel| kernel.busy);
        if self.running.as_ref().is_some_and(Running::is_complete) {
            self.complete();
        } else if let Some(running) = self.running.take_if(|_| !caught_up && !busy) {
            let how = "the link to the container was lost; nothing runs there now, and variables and files are kept";
            let error = cannot_learn(running.was_heard(), how).with_hint("look at what it did before you run it again");
            running.fail(error);
        } else if let Some(running) = &mut self.running {
            if !caught_up {
                // Nothing says what it sent meanwhile.
                running.collector.left_out("stream");
            }
            // The bridge may never have heard of it.
            self.bridge.deadline(running.time_left(Duration::ZERO), self.settings.grace);
            if interrupted {
                self.start_interrupt(None).await;
            }
        }
    }

    /// The kernel ended while the link was lost; the bridge's own ladder may have put another one in its place, which nothing has run in.
    async fn kernel_was_lost(&mut self, hello: Hello) -> Result<(), End> {
        let caught_up = self.catch_up(hello.cell.as_ref()).await;
        if caught_up && hello.cell.as_ref().is_some_and(CellReport::kernel_was_restarted) {
            return self.replace_kernel(Some(Status::TimedOut), Some(Rung::KernelRestart)).await;
        }
        let exit = hello.last_exit.filter(|exit| exit.generation == self.connection.generation);
        let wanted = self.running.as_ref().is_some_and(|running| running.collector.asks_exit());
        let death = exit.map(death).unwrap_or_default();
        self.replace_kernel((!wanted).then_some(Status::KernelDied(death)), None).await
    }

    /// Reads what the running cell sent while nobody heard it. False if nothing was recorded of it.
    async fn catch_up(&mut self, report: Option<&CellReport>) -> bool {
        match (&mut self.running, report) {
            (Some(running), Some(report)) => catch_up(&mut self.bridge, report, running, &self.settings).await,
            _ => false,
        }
    }
}

/// The error of a cell of which nobody here can know what came.
pub(super) fn cannot_learn(heard: bool, how: &str) -> Error {
    let ran = if heard { Ran::Yes } else { Ran::Unknown };
    Error::new(Kind::Engine, "cannot learn what came of the cell").with_ran(ran).with_source(how)
}

/// Reaches the bridge again. On failure says how the container ended, or else why nothing helped.
async fn reach(container: &impl Container, until: Instant) -> Result<(Bridge, Hello), Unreached> {
    let mut why = format!("the link to the container was lost, and nothing answered for {} s", RELINK_WAIT.as_secs());
    loop {
        let reached = tokio::select! {
            biased;
            how = container.ended() => return Err(Unreached::Ended(how)),
            reached = timeout_at(until, container.relink()) => reached,
        };
        match reached {
            Ok(Ok(reached)) => return Ok(reached),
            Ok(Err(error)) => {
                let lost = if error.is_engine_unreachable() { ", and the container engine with it" } else { "" };
                why = format!("the link to the container was lost{lost}: {}", Chain(&error));
            }
            Err(_) => {}
        }
        tracing::debug!(why, "the container was not reached again");
        if Instant::now() + RETRY > until {
            return Err(Unreached::Lost(why));
        }
        sleep(RETRY).await;
    }
}

enum Unreached {
    Ended(String),
    Lost(String),
}
