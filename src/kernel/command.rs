//! What callers ask of the driver.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Kind, Ran};
use crate::execution::{EventSender, Execution};

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

    /// The error of a call to a session that has ended.
    pub(crate) fn gone(&self, attempted: &str, ran: Ran) -> Error {
        let how = self.ended.get().map_or("the session has ended", String::as_str);
        Error::new(Kind::Gone, attempted).with_ran(ran).with_source(how)
    }
}
