//! What is lost: a channel, the kernel. A kernel is replaced.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::connect::open;
use super::end::Chain;
use super::relink::{RELINK_WAIT, RETRY};
use super::{Driver, End, REPORT_WAIT};
use crate::error::{Error, Kind};
use crate::execution::{Death, Rung, State, Status};
use crate::kernel::connection::{Connection, Received};
use crate::kernel::container::Container;
use crate::transport::{BridgeEvent, Channel, ChannelEnd, KernelExit};

/// After the kernel's end, what it had already sent is read for at most this long.
const DRAIN: Duration = Duration::from_secs(1);
/// A bridge that does not answer a ping within this will start no kernel.
const ANSWER_WAIT: Duration = Duration::from_secs(3);
/// A kernel could not be started: the container's end is waited for so long.
const EXIT_WAIT: Duration = Duration::from_millis(500);

impl<C: Container> Driver<C> {
    pub(super) fn channel_ended(&mut self, end: &ChannelEnd) {
        let cut = end.cut.as_ref().map(ToString::to_string);
        tracing::debug!(channel = end.channel.name(), cut, "a channel has ended");
        self.closed.push(end.channel);
        if cut.is_some() {
            // Nobody has to report a kernel that the guard has cut off: it is replaced at once.
            self.broken = Some((Instant::now(), cut));
        } else {
            self.broken.get_or_insert_with(|| (Instant::now() + REPORT_WAIT, None));
        }
    }

    pub(super) async fn bridge_event(&mut self, event: BridgeEvent) -> Result<(), End> {
        match event {
            BridgeEvent::Exit(exit) if exit.generation == self.connection.generation => self.kernel_died(exit).await,
            BridgeEvent::Exit(_) => Ok(()),
            BridgeEvent::Cut(reason) => Err(End::Gone(format!("the link to the container was cut: {reason}"))),
            BridgeEvent::Gone => self.relink().await,
        }
    }

    pub(super) async fn kernel_died(&mut self, exit: KernelExit) -> Result<(), End> {
        let death = death(exit);
        tracing::info!(?death, "the kernel died");
        self.drain().await;
        let (status, rung) = match &self.running {
            // It had ended: that its kernel did so too is told by the state.
            Some(running) if running.is_complete() => running.ending(),
            Some(running) if running.collector.asks_exit() => (None, None),
            _ => (Some(Status::KernelDied(death)), None),
        };
        self.replace_kernel(status, rung).await
    }

    /// Reads what a dead kernel had sent: to the end of IOPub, and where the cell's idle has come, its reply.
    pub(super) async fn drain(&mut self) {
        let until = Instant::now() + DRAIN;
        while let Some(running) = &self.running {
            let read = |channel| self.closed.contains(&channel);
            if read(Channel::Iopub) && (read(Channel::Shell) || !running.lacks_reply()) {
                return;
            }
            let Ok(received) = tokio::time::timeout_at(until, self.connection.recv()).await else { return };
            match received {
                Received::Message(Channel::Iopub, parsed) => {
                    if let Some(running) = &mut self.running
                        && parsed.parent_id() == Some(running.id.as_str())
                    {
                        running.iopub(&parsed);
                    }
                }
                Received::Message(Channel::Shell, parsed) => {
                    if let Some(running) = &mut self.running
                        && parsed.parent_id() == Some(running.id.as_str())
                    {
                        running.reply(&parsed);
                    }
                }
                Received::Message(..) => {}
                Received::End(end) => self.closed.push(end.channel),
            }
        }
    }

    /// Ends the kernel that there is, starts another, and then finishes the running cell with this status: what it says of
    /// the state is true when the caller reads it.
    pub(super) async fn replace_kernel(&mut self, status: Option<Status>, rung: Option<Rung>) -> Result<(), End> {
        self.asked.clear();
        match self.new_kernel().await? {
            Ok(connection) => self.connection = connection,
            Err(error) => {
                // The container may be at its end, and its exit code says more than what failed in it.
                if let Ok(how) = timeout(EXIT_WAIT, self.container.ended()).await {
                    return Err(End::Gone(how));
                }
                let mut why = format!("the kernel could not be restarted: {:#}", Chain(&error));
                let paused = self.container.paused().await.is_some();
                if paused {
                    why.insert_str(0, "the container was paused, and ");
                }
                if self.running.is_some() {
                    let removed = self.container.remove().await;
                    if let Some(why) = self.lives_on(&why, &removed) {
                        return Err(End::Lost(why));
                    }
                }
                if let Some(mut running) = self.running.take() {
                    let rung = rung.map(|_| Rung::ContainerKill);
                    if paused && rung.is_some() {
                        running.killed_in_a_pause();
                    }
                    let status = if rung.is_some() { status } else { Some(Status::ContainerGone(why.clone())) };
                    running.finish(status, State::ContainerGone, rung, self.container.usage());
                }
                return Err(End::Gone(why));
            }
        }
        self.broken = None;
        self.closed.clear();
        self.interrupt = None;
        self.lost_between = true;
        self.recovered_says_so = false;
        if let Some(running) = self.running.take() {
            self.done(&running);
            // Of a recovered cell nobody may ever ask: the next one tells it as well.
            self.lost_between = running.is_recovered();
            self.recovered_says_so = running.is_recovered();
            running.finish(status, State::KernelRestarted, rung, self.container.usage());
        }
        Ok(())
    }

    /// Starts a kernel in place of the one that there is. A link that is lost meanwhile is made again.
    async fn new_kernel(&mut self) -> Result<Result<Connection, Error>, End> {
        let mut before = self.connection.generation;
        let mut until = None;
        loop {
            let fresh = async {
                // A container that was paused answers nothing; ending a kernel and starting one takes its time.
                self.bridge
                    .settle(ANSWER_WAIT)
                    .await
                    .map_err(|error| Error::new(Kind::Start, "cannot start the kernel").with_source(error))?;
                open(&mut self.bridge, before, &self.settings).await
            };
            let fresh = tokio::select! {
                fresh = fresh => fresh,
                how = self.container.ended() => return Err(End::Gone(how)),
            };
            match fresh {
                Err(error) if self.bridge.has_ended() => {
                    tracing::debug!(error = %Chain(&error), "the link was lost while a kernel was started");
                    sleep(RETRY).await;
                    let hello = self.reach(*until.get_or_insert_with(|| Instant::now() + RELINK_WAIT)).await?;
                    // It may have been started, and nobody was told.
                    before = hello.kernel.map_or(before, |kernel| kernel.generation);
                }
                fresh => return Ok(fresh),
            }
        }
    }
}

pub(super) fn death(exit: KernelExit) -> Death {
    Death { code: exit.code, signal: exit.signal, out_of_memory: exit.oom, reason: None }
}
