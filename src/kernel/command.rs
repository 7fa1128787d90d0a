//! What callers ask of the driver.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Kind, Ran};
use crate::execution::{EventSender, Execution};

/// How long a driver may take to notice that its container has ended.
const END_WAIT: Duration = Duration::from_secs(5);

/// The code asks for a line of input.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StdinRequest {
    /// What to show.
    pub prompt: String,
    /// Whether the line is not to be shown.
    pub password: bool,
}

/// What becomes of the code when the call's future or stream is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDrop {
    /// It is interrupted (the default); what has not begun never runs.
    #[default]
    Interrupt,
    /// It goes on to its end or its timeout.
    LeaveRunning,
}

/// A request for input on its way to the caller, with the way back: a line, or none for the end of file.
pub(crate) type StdinQuestion = (StdinRequest, oneshot::Sender<Option<String>>);

/// A cell as it was submitted.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) code: String,
    pub(crate) timeout: Duration,
    pub(crate) on_drop: OnDrop,
    pub(crate) events: Option<EventSender>,
    /// None: `input()` raises EOFError at once.
    pub(crate) stdin: Option<mpsc::Sender<StdinQuestion>>,
    pub(crate) reply: oneshot::Sender<Result<Execution, Error>>,
    pub(crate) submitted: Instant,
}

/// A request to the driver.
#[derive(Debug)]
pub(crate) enum Command {
    Run(Box<Cell>),
    /// A request on the shell channel that is answered by one reply, whose content is returned.
    Ask {
        msg_type: &'static str,
        content: Value,
        reply: oneshot::Sender<Bytes>,
    },
    Interrupt(oneshot::Sender<Result<(), Error>>),
    Restart(oneshot::Sender<Result<(), Error>>),
    /// End what a script has started, by the script's id; answered with whether nothing is left.
    EndScript(String, oneshot::Sender<bool>),
    /// The caller has the result of the recovered cell.
    Delivered,
    Stop(oneshot::Sender<Result<(), Error>>),
    /// Let go of a detached session.
    Release(oneshot::Sender<Result<(), Error>>),
}

/// Sends commands to one driver; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    commands: mpsc::Sender<Command>,
    ended: Arc<OnceLock<String>>,
}

impl Handle {
    pub(crate) fn new(commands: mpsc::Sender<Command>, ended: Arc<OnceLock<String>>) -> Self {
        Self { commands, ended }
    }

    /// Hands a command over. `attempted` is for the error.
    pub(crate) async fn send(&self, command: Command, attempted: &str) -> Result<(), Error> {
        self.commands.send(command).await.map_err(|_| self.gone(attempted, Ran::Never))
    }

    /// Sends a command without code and waits for its answer.
    pub(crate) async fn call<T>(
        &self,
        attempted: &str,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Error> {
        let (sender, receiver) = oneshot::channel();
        self.send(command(sender), attempted).await?;
        receiver.await.map_err(|_| match self.ended.get() {
            Some(_) => self.gone(attempted, Ran::Never),
            None => Error::new(Kind::Protocol, attempted)
                .with_source("the kernel, or the link to it, was replaced before it answered"),
        })
    }

    /// Whether the session has ended, as far as is known here.
    pub(crate) fn has_ended(&self) -> bool {
        self.commands.is_closed()
    }

    /// The error of a call to a session that has ended.
    pub(crate) fn gone(&self, attempted: &str, ran: Ran) -> Error {
        let how = self.ended.get().map_or("the session has ended", String::as_str);
        Error::new(Kind::Gone, attempted).with_ran(ran).with_source(how)
    }

    /// A handle that does not keep the session.
    pub(crate) fn downgrade(&self) -> WeakHandle {
        WeakHandle { commands: self.commands.downgrade(), ended: Arc::clone(&self.ended) }
    }
}

/// For whoever must not keep a session from being dropped.
#[derive(Debug)]
pub(crate) struct WeakHandle {
    commands: mpsc::WeakSender<Command>,
    ended: Arc<OnceLock<String>>,
}

/// What the driver did about a script that nobody keeps any more.
#[derive(Debug)]
pub(crate) enum ScriptFate {
    /// Nothing of it is left.
    Ended,
    /// It may go on.
    Unknown,
    /// The session has ended, and so has its container, or will: how.
    Gone(String),
}

impl WeakHandle {
    /// Has a script ended that does not end, or whose end was not told.
    pub(crate) async fn end_script(&self, script: &str) -> ScriptFate {
        let Some(commands) = self.commands.upgrade() else { return self.gone() };
        let (reply, clean) = oneshot::channel();
        if commands.send(Command::EndScript(script.to_owned(), reply)).await.is_err() {
            return self.gone();
        }
        match clean.await {
            Ok(true) => ScriptFate::Ended,
            // Also where the container has just died, which the driver may not know yet.
            _ => match tokio::time::timeout(END_WAIT, commands.closed()).await {
                Ok(()) => self.gone(),
                Err(_) => ScriptFate::Unknown,
            },
        }
    }

    /// How the session ended, if it has.
    pub(crate) fn ended(&self) -> Option<&str> {
        let goes_on = self.commands.upgrade().is_some_and(|commands| !commands.is_closed());
        (!goes_on).then(|| self.how())
    }

    fn gone(&self) -> ScriptFate {
        ScriptFate::Gone(self.how().to_owned())
    }

    fn how(&self) -> &str {
        self.ended.get().map_or("the last handle of the session was dropped", String::as_str)
    }
}
