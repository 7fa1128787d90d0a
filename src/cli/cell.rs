//! Runs one cell and attends to it: its events, Ctrl-C, the lines that it asks for.

use std::pin::{Pin, pin};
use std::time::Duration;

use anyhow::{Result, bail};
use cellblock::{Error, Event, Execution, RunStream, Session, StdinRequest};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use super::input::{Input, Reading};
use super::interrupts::Interrupts;
use super::terminal_mode::TerminalMode;
use super::view::{Screen, View};

/// A prompt and the output before it come over two channels: how long the output may be quiet before the prompt is shown.
const SETTLE: Duration = Duration::from_millis(30);

/// How long code may take to end after an interrupt before that is said.
const PATIENCE: Duration = Duration::from_secs(2);

/// What cells are run with.
pub(crate) struct Attendant<'a> {
    pub(crate) session: &'a Session,
    pub(crate) timeout: Option<Duration>,
    /// Where `input()` reads; without it the code gets an `EOFError`.
    pub(crate) input: Option<&'a Input>,
    pub(crate) interrupts: &'a mut Interrupts,
    pub(crate) manner: Manner,
}

/// Who runs the cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// A command: outputs are shown as they come, and the second Ctrl-C leaves the cell to its fate.
    Command,
    /// A command that prints the execution when all is done.
    Data,
    /// The REPL: Ctrl-C never leaves, and what is typed ahead is kept for the next prompt.
    Repl,
}

/// What came of a cell.
pub(crate) enum Attended {
    /// It ended, however.
    Done(Box<Execution>),
    /// Ctrl-C was pressed twice.
    Left,
}

struct Asked {
    request: StdinRequest,
    answer: oneshot::Sender<Option<String>>,
}

/// A line that is being read for the code.
struct Answering {
    reading: Reading,
    answer: oneshot::Sender<Option<String>>,
    echoes: bool,
}

/// The interrupt or restart that Ctrl-C has set going.
#[derive(Default)]
struct Acting<'a>(Option<BoxFuture<'a, Result<(), Error>>>);

/// How far the patience with an interrupted cell has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    Untried,
    Until(Instant),
    /// It was said what the next press does.
    Over,
}

impl Attendant<'_> {
    pub(crate) async fn run(&mut self, code: &str, screen: &mut Screen<'_>) -> Result<Attended> {
        let _mode = if self.manner == Manner::Repl { TerminalMode::typing_ahead() } else { None };
        let (asks, mut asked) = mpsc::channel(1);
        let mut reading = None;
        let attended = self.attend(self.stream(code, asks), &mut asked, &mut reading, screen).await;
        if let Some(Answering { reading, .. }) = reading {
            reading.cancel().await;
        }
        attended
    }

    fn stream(&self, code: &str, asks: mpsc::Sender<Asked>) -> RunStream {
        let mut stream = self.session.run_stream(code);
        if let Some(timeout) = self.timeout {
            stream = stream.timeout(timeout);
        }
        if self.input.is_none() {
            return stream;
        }
        stream.stdin(move |request| {
            let asks = asks.clone();
            Box::pin(async move {
                let (answer, line) = oneshot::channel();
                asks.send(Asked { request, answer }).await.ok()?;
                line.await.ok()?
            })
        })
    }

    async fn attend(
        &mut self,
        stream: RunStream,
        asked: &mut mpsc::Receiver<Asked>,
        reading: &mut Option<Answering>,
        screen: &mut Screen<'_>,
    ) -> Result<Attended> {
        let mut stream = pin!(stream);
        let mut view = View::default();
        let mut acting = Acting::default();
        let mut patience = Patience::Untried;
        loop {
            tokio::select! {
                event = stream.next() => {
                    if let Some(execution) = self.take(event, &mut view, screen)? {
                        return self.finish(execution, view, screen);
                    }
                }
                () = self.interrupts.next() => {
                    if self.manner != Manner::Repl || reading.is_some() {
                        screen.printer.echoed_control();
                    }
                    if patience != Patience::Untried && self.manner != Manner::Repl {
                        return Ok(Attended::Left);
                    }
                    acting.press(self.session, &mut patience);
                }
                acted = acting.ended() => {
                    if let Err(error) = acted {
                        screen.printer.error(&error.into());
                    }
                }
                () = patience.over() => screen.printer.note(match self.manner {
                    Manner::Repl => "the cell goes on; Ctrl-C again restarts the kernel, and variables are gone then",
                    Manner::Command | Manner::Data => "the cell goes on; Ctrl-C again leaves at once",
                }),
                Some(Asked { request, answer }) = asked.recv() => {
                    // One that was interrupted in the middle of a line may ask for another.
                    if let Some(given_up) = reading.take() {
                        given_up.reading.cancel().await;
                    }
                    if let Some(execution) = self.settle(stream.as_mut(), &mut view, screen).await? {
                        return self.finish(execution, view, screen);
                    }
                    // `getpass()` without a prompt: nothing would show that it waits.
                    let silent = request.password && request.prompt.is_empty();
                    screen.printer.prompt(if silent { "Password: " } else { &request.prompt });
                    *reading = self.input.map(|input| Answering {
                        reading: input.ask(request.password),
                        answer,
                        echoes: input.is_terminal() && !request.password,
                    });
                }
                line = line(reading) => {
                    let Some(answering) = reading.take() else { continue };
                    // Ctrl-D ends no line.
                    screen.printer.answered(answering.echoes && line.is_some());
                    // Nobody waits any more if the cell has just been interrupted.
                    let _ = answering.answer.send(line);
                }
            }
        }
    }

    /// Shows what is still on its way, so that a prompt stands after it; not for long if it does not end.
    async fn settle(
        &self,
        mut stream: Pin<&mut RunStream>,
        view: &mut View,
        screen: &mut Screen<'_>,
    ) -> Result<Option<Box<Execution>>> {
        let end = Instant::now() + 10 * SETTLE;
        while Instant::now() < end {
            let Ok(event) = timeout(SETTLE, stream.next()).await else { break };
            let execution = self.take(event, view, screen)?;
            if execution.is_some() {
                return Ok(execution);
            }
        }
        Ok(None)
    }

    /// Shows an event; the last one gives the execution.
    fn take(
        &self,
        event: Option<Result<Event, Error>>,
        view: &mut View,
        screen: &mut Screen<'_>,
    ) -> Result<Option<Box<Execution>>> {
        match event {
            Some(Ok(Event::Done(execution))) => return Ok(Some(execution)),
            // Whoever waits for data waits for nothing then.
            Some(Ok(event)) if self.manner != Manner::Data || matches!(event, Event::Paused { .. }) => {
                view.event(&event, screen)?;
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => bail!("the cell's events ended without an outcome"),
        }
        Ok(None)
    }

    fn finish(&self, execution: Box<Execution>, view: View, screen: &mut Screen<'_>) -> Result<Attended> {
        if self.manner != Manner::Data {
            view.done(&execution, screen)?;
        }
        Ok(Attended::Done(execution))
    }
}

impl<'a> Acting<'a> {
    /// Does what this press of Ctrl-C is for.
    fn press(&mut self, session: &'a Session, patience: &mut Patience) {
        if *patience == Patience::Over {
            self.0 = Some(Box::pin(session.restart()));
            return;
        }
        // While one is under way another would only hit the code's own clean-up.
        self.0.get_or_insert_with(|| Box::pin(session.interrupt()));
        if *patience == Patience::Untried {
            *patience = Patience::Until(Instant::now() + PATIENCE);
        }
    }

    /// Waits for the end of what is under way.
    async fn ended(&mut self) -> Result<(), Error> {
        let Some(under_way) = &mut self.0 else { return std::future::pending().await };
        let ended = under_way.await;
        self.0 = None;
        ended
    }
}

impl Patience {
    /// Waits until it is over, once.
    async fn over(&mut self) {
        let Self::Until(end) = *self else { return std::future::pending().await };
        sleep_until(end).await;
        *self = Self::Over;
    }
}

/// The line that is being read, if one is.
async fn line(reading: &mut Option<Answering>) -> Option<String> {
    match reading {
        Some(answering) => answering.reading.line().await,
        None => std::future::pending().await,
    }
}
