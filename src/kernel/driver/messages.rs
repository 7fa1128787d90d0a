//! What comes from the kernel.

use tokio::sync::oneshot;

use super::{Driver, End};
use crate::execution::{Death, State, Status};
use crate::kernel::command::StdinRequest;
use crate::kernel::container::Container;
use crate::kernel::running::Running;
use crate::protocol::Parsed;
use crate::protocol::content::{InputReply, InputRequest, InterruptReply};
use crate::transport::Channel;

impl<C: Container> Driver<C> {
    pub(super) async fn message(&mut self, channel: Channel, parsed: &Parsed) -> Result<(), End> {
        let Some(parent) = parsed.parent_id() else { return Ok(()) };
        match channel {
            Channel::Iopub => {
                if let Some(running) = self.running.as_mut().filter(|running| running.id == parent) {
                    let begun = running.has_begun();
                    running.iopub(parsed);
                    if !begun && running.has_begun() {
                        self.advance_interrupt().await;
                    }
                }
            }
            Channel::Shell => self.shell_reply(parent, parsed),
            Channel::Control => {
                let idle = match parsed {
                    Parsed::Message(message) => message.content_as::<InterruptReply>().unwrap_or_default().idle,
                    Parsed::Elided { .. } => false,
                };
                let begun = self.running.as_ref().is_some_and(Running::has_begun);
                if let Some(interrupt) = &mut self.interrupt
                    && interrupt.reply(parent, idle, begun)
                {
                    self.advance_interrupt().await;
                }
            }
            Channel::Stdin => self.input_request(parsed).await,
        }
        if self.running.as_ref().is_some_and(Running::is_complete) {
            self.complete();
        }
        self.lift_barrier();
        Ok(())
    }

    pub(super) fn shell_reply(&mut self, parent: &str, parsed: &Parsed) {
        let is_nudge = self.interrupt.as_mut().is_some_and(|interrupt| interrupt.nudge_reply(parent));
        if let Some(running) = &mut self.running {
            if running.id == parent {
                if parsed.header().msg_type == "execute_reply" {
                    running.reply(parsed);
                }
            } else {
                running.later_reply(parent, is_nudge);
            }
        }
        if let Some(caller) = self.asked.remove(parent)
            && let Parsed::Message(message) = parsed
        {
            let _ = caller.send(message.content.clone());
        }
    }

    pub(super) async fn input_request(&mut self, parsed: &Parsed) {
        let Parsed::Message(message) = parsed else { return };
        let Some(running) = self.running.as_mut().filter(|running| message.parent_id() == Some(running.id.as_str()))
        else {
            return;
        };
        let (sender, receiver) = oneshot::channel();
        let asked = running.cell.stdin.as_ref().is_some_and(|stdin| {
            let request = message.content_as::<InputRequest>().unwrap_or_default();
            stdin.try_send((StdinRequest { prompt: request.prompt, password: request.password }, sender)).is_ok()
        });
        running.input = Some((message.header.clone(), receiver));
        if !asked {
            self.answer_input(None).await;
        }
    }

    /// Answers the pending `input()`; none raises EOFError in the code.
    pub(super) async fn answer_input(&mut self, line: Option<String>) {
        let Some((header, _)) = self.running.as_mut().and_then(|running| running.input.take()) else { return };
        let value = line.as_deref().unwrap_or("\x04");
        if let Err(error) = self.connection.answer(&header, "input_reply", &InputReply { value }).await {
            tracing::warn!(%error, "the input did not reach the kernel");
        }
    }

    /// The cell has ended in the kernel that still runs.
    pub(super) fn complete(&mut self) {
        let Some(running) = self.running.take() else { return };
        self.done(&running);
        let (status, rung) = running.ending();
        let state = if self.lost_between { State::KernelRestarted } else { State::Kept };
        // Nobody may ever take the result of a recovered cell.
        self.recovered_says_so = running.is_recovered() && self.lost_between;
        self.lost_between = self.recovered_says_so;
        running.finish(status, state, rung, self.container.usage());
    }

    /// Only half of the cell's end came, and the rest is not to be expected any more.
    pub(super) async fn complete_by_half(&mut self) -> Result<(), End> {
        if self.running.as_ref().is_some_and(Running::was_heard) {
            if let Some(running) = self.running.as_mut().filter(|running| !running.collector.is_idle()) {
                running.collector.left_out("stream");
            }
            self.complete();
            return Ok(());
        }
        let reason = Some("its outputs no longer arrived".to_owned());
        self.replace_kernel(Some(Status::KernelDied(Death { reason, ..Death::default() })), None).await
    }

    /// Tells the bridge that the result is out; a recovered one is when somebody has asked for it.
    pub(super) fn done(&self, running: &Running) {
        if self.settings.detached && !running.is_recovered() {
            self.bridge.done(&running.id);
        }
    }
}
