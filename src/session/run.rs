//! One cell's call: its options, its future, its stream.

use std::fmt;
use std::future::IntoFuture;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream};
use tokio::sync::{mpsc, oneshot};

use super::Session;
use super::builder::check_span;
use crate::error::{Error, Kind, Ran};
use crate::execution::{Event, EventReceiver, Execution, channel};
use crate::kernel::{Cell, Command, OnDrop, StdinQuestion, StdinRequest};

/// Events that wait for a slow consumer, in bytes; what is past it is left out and counted.
const EVENT_BUDGET: usize = 8 << 20;
/// The longest code that is taken, in bytes.
const CODE_LIMIT: usize = 64 << 20;
/// Questions for input on their way to the caller. Honest code waits for each answer; more than these get the end of file.
const QUESTIONS: usize = 4;

type Answer = Box<dyn FnMut(StdinRequest) -> BoxFuture<'static, Option<String>> + Send>;

/// What both kinds of call have in common.
struct Call {
    session: Session,
    code: String,
    timeout: Option<Duration>,
    on_drop: OnDrop,
    answer: Option<Answer>,
}

/// A call on its way.
struct Submitted {
    reply: oneshot::Receiver<Result<Execution, Error>>,
    questions: mpsc::Receiver<StdinQuestion>,
    answer: Option<Answer>,
    answering: Option<Answering>,
    session: Session,
}

/// The caller's answer to the newest question, and the way back.
struct Answering {
    line: BoxFuture<'static, Option<String>>,
    way_back: oneshot::Sender<Option<String>>,
}

impl Call {
    fn new(session: Session, code: String) -> Self {
        Self { session, code, timeout: None, on_drop: OnDrop::default(), answer: None }
    }

    async fn submit(self, events: Option<crate::execution::EventSender>) -> Result<Submitted, Error> {
        let timeout = self.timeout.unwrap_or(self.session.timeout());
        check_span("timeout", timeout, Duration::from_secs(24 * 3600))?;
        if self.code.len() > CODE_LIMIT {
            return Err(Error::new(Kind::Usage, "cannot run a cell of more than 64 MiB")
                .with_hint("put the data into a file of the session and read it from there"));
        }
        let (sender, reply) = oneshot::channel();
        let (ask, questions) = mpsc::channel(QUESTIONS);
        let cell = Cell {
            code: self.code,
            timeout,
            on_drop: self.on_drop,
            events,
            stdin: self.answer.is_some().then_some(ask),
            reply: sender,
            submitted: Instant::now(),
        };
        self.session.handle().send(Command::Run(Box::new(cell)), "cannot run the cell").await?;
        Ok(Submitted { reply, questions, answer: self.answer, answering: None, session: self.session })
    }
}

impl Submitted {
    /// Answers what the code asks, in the caller's own task, until the result is there.
    fn poll_reply(&mut self, context: &mut Context<'_>) -> Poll<Result<Execution, Error>> {
        loop {
            if let Poll::Ready(result) = self.reply.poll_unpin(context) {
                let result = result.unwrap_or_else(|_| {
                    Err(self.session.handle().gone("cannot learn what came of the cell", Ran::Unknown))
                });
                return Poll::Ready(result);
            }
            if let Some(mut answering) = self.answering.take() {
                match answering.line.poll_unpin(context) {
                    Poll::Ready(line) => drop(answering.way_back.send(line)),
                    Poll::Pending => self.answering = Some(answering),
                }
            }
            // A newer question means that the older one is no longer waited for.
            match (self.questions.poll_recv(context), &mut self.answer) {
                (Poll::Ready(Some((request, way_back))), Some(answer)) => {
                    self.answering = Some(Answering { line: answer(request), way_back });
                }
                _ => return Poll::Pending,
            }
        }
    }
}

/// A cell to run; a future of its [`Execution`].
///
/// A container that is paused meanwhile is not lost, and so the future waits: until it goes on, or the timeout is up and it is killed, which the execution
/// says. A [`RunStream`] tells of the pause while it lasts.
///
/// # Cancel safety
///
/// Dropping the future never harms the session: what becomes of the code is decided by [`on_drop`](Self::on_drop), and its timeout stays in force.
#[must_use = "a run does nothing unless awaited"]
pub struct Run(Call);

impl Run {
    pub(super) fn new(session: Session, code: String) -> Self {
        Self(Call::new(session, code))
    }

    /// The total time that the code may take once it has begun (default: the session's).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = Some(timeout);
        self
    }

    /// Answers `input()` and `getpass()`: with a line, or with `None` for the end of file. Without it they raise `EOFError` at once.
    pub fn stdin<F>(mut self, answer: F) -> Self
    where
        F: FnMut(StdinRequest) -> BoxFuture<'static, Option<String>> + Send + 'static,
    {
        self.0.answer = Some(Box::new(answer));
        self
    }

    /// What becomes of the code when this future is dropped.
    pub fn on_drop(mut self, on_drop: OnDrop) -> Self {
        self.0.on_drop = on_drop;
        self
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").finish_non_exhaustive()
    }
}

impl IntoFuture for Run {
    type Output = Result<Execution, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move {
            let mut submitted = self.0.submit(None).await?;
            std::future::poll_fn(|context| submitted.poll_reply(context)).await
        }
        .boxed()
    }
}

/// A cell to run; a stream of its [`Event`]s. It starts when first polled.
///
/// The last item is [`Event::Done`] with the [`Execution`], or an error. A consumer that is slower than the code never slows
/// it: past 8 MiB of waiting events the newest are left out, [`Event::Lagged`] says how many, and the text is in the execution or its spill file.
///
/// # Cancel safety
///
/// As for [`Run`].
#[must_use = "a stream does nothing unless polled"]
pub struct RunStream(Phase);

enum Phase {
    New(Box<Call>),
    Submitting(BoxFuture<'static, Result<Submitted, Error>>, EventReceiver),
    Running(Box<Flight>),
    Over,
}

struct Flight {
    submitted: Submitted,
    events: EventReceiver,
    /// Given out once all events before it are.
    result: Option<Result<Execution, Error>>,
}

impl Flight {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, Error>> {
        if self.result.is_none()
            && let Poll::Ready(result) = self.submitted.poll_reply(context)
        {
            self.result = Some(result);
        }
        match self.events.poll_recv(context) {
            Poll::Ready(Some(event)) => Poll::Ready(Ok(event)),
            Poll::Ready(None) => match self.result.take() {
                Some(result) => Poll::Ready(result.map(|execution| Event::Done(Box::new(execution)))),
                None => Poll::Pending,
            },
            Poll::Pending => Poll::Pending,
        }
    }
}

impl RunStream {
    pub(super) fn new(session: Session, code: String) -> Self {
        Self(Phase::New(Box::new(Call::new(session, code))))
    }

    fn with(mut self, change: impl FnOnce(&mut Call)) -> Self {
        if let Phase::New(call) = &mut self.0 {
            change(call);
        }
        self
    }

    /// The total time that the code may take once it has begun (default: the session's).
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|call| call.timeout = Some(timeout))
    }

    /// Answers `input()` and `getpass()`: with a line, or with `None` for the end of file. Without it they raise `EOFError` at once.
    pub fn stdin<F>(self, answer: F) -> Self
    where
        F: FnMut(StdinRequest) -> BoxFuture<'static, Option<String>> + Send + 'static,
    {
        self.with(|call| call.answer = Some(Box::new(answer)))
    }

    /// What becomes of the code when this stream is dropped before its end.
    pub fn on_drop(self, on_drop: OnDrop) -> Self {
        self.with(|call| call.on_drop = on_drop)
    }
}

impl fmt::Debug for RunStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStream").finish_non_exhaustive()
    }
}

impl Stream for RunStream {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match std::mem::replace(&mut self.0, Phase::Over) {
                Phase::New(call) => {
                    let (sender, receiver) = channel(EVENT_BUDGET);
                    self.0 = Phase::Submitting(call.submit(Some(sender)).boxed(), receiver);
                }
                Phase::Submitting(mut future, events) => match future.poll_unpin(context) {
                    Poll::Ready(Ok(submitted)) => {
                        self.0 = Phase::Running(Box::new(Flight { submitted, events, result: None }));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                    Poll::Pending => {
                        self.0 = Phase::Submitting(future, events);
                        return Poll::Pending;
                    }
                },
                Phase::Running(mut flight) => {
                    let polled = flight.poll(context);
                    let over = matches!(polled, Poll::Ready(Ok(Event::Done(_)) | Err(_)));
                    if !over {
                        self.0 = Phase::Running(flight);
                    }
                    return polled.map(Some);
                }
                Phase::Over => return Poll::Ready(None),
            }
        }
    }
}
