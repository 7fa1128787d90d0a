//! The driver: one task that owns a session's channels, its bridge, its container watch and all timers, in one `select!`.

mod connect;
mod end;
mod interrupts;
mod loss;
mod messages;
mod relink;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::command::{Cell, Command};
use super::connection::{Connection, Received};
use super::container::Container;
use super::interrupt::Interrupt;
use super::running::{Cause, Running};
use super::silence::{Looked, Silence};
use crate::error::{Error, Kind};
use crate::execution::{Collector, Death, Limits, SpillDirectory, Status};
use crate::protocol::content::ExecuteRequest;
use crate::transport::{Bridge, BridgeError, BridgeEvent, Channel, is_clean};

/// Cells that may wait behind the running one.
const QUEUE: usize = 1024;
/// A channel has ended: the report of the kernel's end, or the container's, follows within this, or the kernel is taken for lost.
const REPORT_WAIT: Duration = Duration::from_secs(2);
/// How long the bridge may take to end a script that got out of hand.
const SCRIPT_WAIT: Duration = Duration::from_secs(10);

/// What a driver has to know about its session.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Jupyter's session id and the ZeroMQ identity.
    pub(crate) session: String,
    /// A directory of the host that only we can enter.
    pub(crate) private: PathBuf,
    /// The timeout of a cell that names none.
    pub(crate) timeout: Duration,
    /// How long interrupted code may go on before the kernel is restarted.
    pub(crate) grace: Duration,
    /// How long a kernel may take to become ready.
    pub(crate) ready: Duration,
    /// When the session's life is over, whatever happens.
    pub(crate) expires: Instant,
    /// Whether the session outlives its controller.
    pub(crate) detached: bool,
    pub(crate) limits: Limits,
    pub(crate) spill: Option<SpillDirectory>,
}

pub(crate) struct Driver<C> {
    settings: Settings,
    container: C,
    bridge: Bridge,
    connection: Connection,
    commands: mpsc::Receiver<Command>,
    ended: Arc<OnceLock<String>>,
    queue: VecDeque<Box<Cell>>,
    running: Option<Running>,
    interrupt: Option<Interrupt>,
    /// Callers whose interrupt is for the cell that is sent next.
    interrupt_next: Vec<oneshot::Sender<Result<(), Error>>>,
    /// Callers that wait for a reply on shell, by the request's id.
    asked: HashMap<String, oneshot::Sender<Bytes>>,
    /// The kernel was lost between two cells: the next execution says so.
    lost_between: bool,
    /// The result of the recovered cell says so too, if somebody takes it.
    recovered_says_so: bool,
    /// A channel has ended, and why it was cut; the report of the kernel's end is due by then.
    broken: Option<(Instant, Option<String>)>,
    /// The kernel's channels that have ended.
    closed: Vec<Channel>,
    /// The cell that an earlier controller left.
    recovered: Option<String>,
}

/// What the `select!` brought.
enum Step {
    Command(Option<Command>),
    Kernel(Received),
    Bridge(BridgeEvent),
    Signalled(Result<Bytes, BridgeError>),
    ContainerEnded(String),
    Input(Option<String>),
    CallerGone,
    Looked(Looked),
    Timer,
}

/// How a driver's loop ended.
enum End {
    /// The container is gone or has to go; the text says how or why.
    Gone(String),
    Stopped(oneshot::Sender<Result<(), Error>>),
    Released(Option<oneshot::Sender<Result<(), Error>>>),
    /// A detached session is out of reach, and may go on.
    Lost(String),
    /// The last handle was dropped.
    Dropped,
}

impl<C: Container> Driver<C> {
    /// Runs until the session ends or is let go.
    pub(crate) async fn run(mut self) {
        let end = loop {
            if let Err(end) = self.begin_next().await {
                break end;
            }
            let step = self.next_step().await;
            if let Err(end) = self.take(step).await {
                break end;
            }
        };
        self.end(end).await;
    }

    async fn next_step(&mut self) -> Step {
        let wake = self.next_wake();
        let Self { commands, connection, bridge, container, running, interrupt, .. } = self;
        let acknowledgement = interrupt.as_mut().and_then(|interrupt| interrupt.acknowledgement.as_mut());
        let (input, reply, silence) = match running {
            Some(Running { input, cell, silence, abandoned: false, .. }) => {
                (input.as_mut(), Some(&mut cell.reply), Some(silence))
            }
            Some(Running { input, silence, .. }) => (input.as_mut(), None, Some(silence)),
            None => (None, None, None),
        };
        tokio::select! {
            received = connection.recv() => Step::Kernel(received),
            command = commands.recv() => Step::Command(command),
            event = bridge.event() => Step::Bridge(event),
            how = container.ended() => Step::ContainerEnded(how),
            Some(signalled) = present(acknowledgement) => {
                Step::Signalled(signalled.unwrap_or(Err(BridgeError::Gone)))
            }
            Some(line) = present(input.map(|(_, line)| line)) => Step::Input(line.ok().flatten()),
            Some(()) = closed(reply) => Step::CallerGone,
            Some(looked) = looked(silence) => Step::Looked(looked),
            () = sleep_until(wake) => Step::Timer,
        }
    }

    fn next_wake(&self) -> Instant {
        let life = self.settings.expires;
        let running = self.running.as_ref().map_or(life, Running::next_due);
        let interrupt = self.interrupt.as_ref().map_or(life, Interrupt::next_look);
        let broken = self.broken.as_ref().map_or(life, |(until, _)| *until);
        running.min(interrupt).min(broken).min(life)
    }

    async fn take(&mut self, step: Step) -> Result<(), End> {
        match step {
            Step::Kernel(Received::Message(channel, parsed)) => self.message(channel, &parsed).await?,
            Step::Kernel(Received::End(end)) => self.channel_ended(&end),
            Step::Command(command) => self.command(command).await?,
            Step::Bridge(event) => self.bridge_event(event).await?,
            Step::Signalled(answer) => self.signalled(answer).await,
            Step::ContainerEnded(how) => return Err(End::Gone(how)),
            Step::Input(line) => self.answer_input(line).await,
            Step::CallerGone => self.caller_gone().await,
            Step::Looked(looked) => self.looked(looked),
            Step::Timer => self.timer().await?,
        }
        Ok(())
    }

    /// Sends the next cell, if none is in flight and no interrupt could hit it.
    async fn begin_next(&mut self) -> Result<(), End> {
        while self.running.is_none() && self.interrupt.is_none() && self.broken.is_none() {
            let Some(cell) = self.queue.pop_front() else {
                self.interrupt_next.drain(..).for_each(|waiter| drop(waiter.send(Ok(()))));
                return Ok(());
            };
            if cell.reply.is_closed() && cell.on_drop == super::OnDrop::Interrupt {
                continue;
            }
            self.bridge.deadline(cell.timeout, self.settings.grace);
            let request = ExecuteRequest::new(&cell.code);
            match self.connection.request(Channel::Shell, "execute_request", &request).await {
                Ok(id) => {
                    let collector = Collector::new(self.settings.limits, self.settings.spill.clone());
                    self.running = Some(Running::new(id, cell, collector, self.container.usage()));
                    self.interrupt_begun().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "the kernel does not take requests");
                    self.queue.push_front(cell);
                    self.broken = Some((Instant::now() + REPORT_WAIT, None));
                }
            }
        }
        Ok(())
    }

    async fn command(&mut self, command: Option<Command>) -> Result<(), End> {
        match command {
            Some(Command::Run(cell)) => {
                // Those whose callers have gone never run, and take no room.
                self.queue.retain(|cell| !(cell.reply.is_closed() && cell.on_drop == super::OnDrop::Interrupt));
                if self.queue.len() < QUEUE {
                    self.queue.push_back(cell);
                } else {
                    let error =
                        Error::new(Kind::Usage, "queueing a cell").with_source(format!("{QUEUE} cells wait already"));
                    let _ = cell.reply.send(Err(error));
                }
            }
            Some(Command::Ask { msg_type, content, reply }) => {
                self.asked.retain(|_, caller| !caller.is_closed());
                match self.connection.request(Channel::Shell, msg_type, &content).await {
                    Ok(id) => drop(self.asked.insert(id, reply)),
                    Err(error) => tracing::warn!(%error, msg_type, "the kernel does not take requests"),
                }
            }
            Some(Command::Interrupt(reply)) => match &mut self.running {
                Some(running) => {
                    running.interrupted(Cause::Interrupted, self.settings.grace);
                    // Code that has got an earlier one and goes on gets another.
                    self.interrupt.take_if(|interrupt| interrupt.is_taken());
                    self.start_interrupt(Some(reply)).await;
                }
                // The barrier of an earlier interrupt keeps a cell waiting that is already the caller's.
                None if self.interrupt.is_some() && !self.queue.is_empty() => self.interrupt_next.push(reply),
                None => drop(reply.send(Ok(()))),
            },
            Some(Command::Restart(reply)) => {
                let death =
                    Death { reason: Some("the kernel was restarted on request".to_owned()), ..Death::default() };
                self.replace_kernel(Some(Status::KernelDied(death)), None).await?;
                // The caller knows.
                self.lost_between = false;
                let _ = reply.send(Ok(()));
            }
            Some(Command::EndScript(script, reply)) => {
                let answer = self.bridge.end_script(&script);
                tokio::spawn(async move {
                    let answer = tokio::time::timeout(SCRIPT_WAIT, answer).await;
                    let _ = reply.send(matches!(answer, Ok(Ok(Ok(answer))) if is_clean(&answer)));
                });
            }
            Some(Command::Delivered) => {
                self.bridge.done(self.recovered.as_deref().unwrap_or_default());
                self.lost_between &= !std::mem::take(&mut self.recovered_says_so);
            }
            Some(Command::Stop(reply)) => return Err(End::Stopped(reply)),
            Some(Command::Release(reply)) => return Err(End::Released(Some(reply))),
            None if self.settings.detached => return Err(End::Released(None)),
            None => return Err(End::Dropped),
        }
        Ok(())
    }
}

/// Waits for a value that may not be expected at all.
async fn present<T>(receiver: Option<&mut oneshot::Receiver<T>>) -> Option<Result<T, oneshot::error::RecvError>> {
    match receiver {
        Some(receiver) => Some(receiver.await),
        None => None,
    }
}

async fn closed<T>(sender: Option<&mut oneshot::Sender<T>>) -> Option<()> {
    match sender {
        Some(sender) => {
            sender.closed().await;
            Some(())
        }
        None => None,
    }
}

async fn looked(silence: Option<&mut Silence>) -> Option<Looked> {
    silence?.looked().await
}
