//! An execution on its way: its events as they come, and its record.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use cellblock::{
    BlockResult, BlocksOutcome, Error, Event, OnDrop, Ran, RunStream, ScriptEvent, ScriptStream, State, Text,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use serde::Serialize;
use tracing::Span;

use super::history::{End, Record, Started};
use super::work::{Outcome, Request, Work};
use crate::serve::refusal::{Code, Refusal};
use crate::serve::store::{Held, Store};

/// Something that happens while it runs.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Happening {
    Cell(Event),
    Script(ScriptEvent),
    Blocks(BlocksEvent),
}

/// The end of a message's blocks. What comes before it is not told yet: what runs in them borrows it.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum BlocksEvent {
    Done { outcome: Outcome },
}

enum Events {
    Cell(RunStream),
    Script(ScriptStream),
    Blocks(Blocks),
}

struct Blocks {
    /// None once they have ended.
    all: Option<BoxFuture<'static, Result<BlocksOutcome, Error>>>,
    in_cell: Arc<AtomicBool>,
}

/// A stream of what happens. Dropped before its end, it interrupts what runs, and the session lives.
pub(crate) struct Run {
    events: Events,
    started: Started,
    held: Held,
    store: Arc<Store>,
    span: Span,
    begun: Instant,
}

impl Run {
    /// Notes it in the session's history; it runs when polled.
    pub(crate) fn begin(store: &Arc<Store>, held: Held, request: Request) -> Result<Self, Refusal> {
        let span = tracing::info_span!("execution", session = held.session.name(), execution = %request.id);
        let events = events(&held, &request);
        let started = held.history.begin(request, store.config().queue)?;
        Ok(Self { events, started, held, store: Arc::clone(store), span, begun: Instant::now() })
    }

    pub(crate) fn record(&self) -> &Arc<Record> {
        &self.started.record
    }

    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Runs it to its end.
    pub(crate) async fn finish(mut self) -> Result<Outcome, Refusal> {
        while let Some(happening) = self.next().await {
            happening?;
        }
        match self.record().end() {
            Some(End::Done(outcome)) => Ok(outcome),
            _ => Err(Refusal::new(Code::Internal, "the events ended without a result")),
        }
    }

    fn done(&self, outcome: Outcome) {
        let _entered = self.span.enter();
        if outcome.state() == State::ContainerGone {
            self.store.discard(self.held.entry());
        }
        self.store.metrics.execution_ended(&outcome);
        tracing::info!(status = outcome.word(), total = ?outcome.total(), "the execution has ended");
        self.started.end(End::Done(outcome));
    }

    fn failed(&self, error: &Error) -> Refusal {
        let mut refusal = Refusal::from(error);
        if error.is_session_gone() {
            self.store.discard(self.held.entry());
            // Only what never ran may be sent again without a thought.
            refusal =
                refusal.with_code(if error.ran() == Ran::Never { Code::SessionFailed } else { Code::SessionLost });
        }
        self.started.end(End::Failed(refusal.clone()));
        refusal
    }
}

fn events(held: &Held, request: &Request) -> Events {
    let (session, timeout) = (&held.session, request.timeout);
    let (script, stdin) = match &request.work {
        Work::Cell(code) => {
            return Events::Cell(session.run_stream(code.as_str()).timeout(timeout).on_drop(OnDrop::Interrupt));
        }
        Work::Script { text, shell, stdin } => (session.run_shell(text.as_bytes(), shell.clone()), stdin),
        Work::Program { argv, stdin } => (session.run_program(argv), stdin),
        Work::Blocks { blocks, policy, keep_going } => {
            let (session, blocks, policy, keep_going) = (session.clone(), blocks.clone(), policy.clone(), *keep_going);
            let in_cell = Arc::new(AtomicBool::new(false));
            let noted = Arc::clone(&in_cell);
            let all = async move {
                let all = session.run_blocks(&blocks, &policy).timeout(timeout).keep_going(keep_going);
                all.on_event(move |event| {
                    noted.store(matches!(event, cellblock::BlocksEvent::Cell(_)), Ordering::Release);
                })
                .await
            };
            return Events::Blocks(Blocks { all: Some(all.boxed()), in_cell });
        }
    };
    let script = script.timeout(timeout).on_drop(OnDrop::Interrupt);
    Events::Script(match stdin {
        Some(stdin) => script.stdin(stdin.as_bytes()).stream(),
        None => script.stream(),
    })
}

impl BlocksEvent {
    fn of(mut outcome: BlocksOutcome, took: Duration) -> Self {
        for block in &mut outcome.blocks {
            match &mut block.result {
                BlockResult::Cell(execution) => keep_to_ourselves([&mut execution.stdout, &mut execution.stderr]),
                BlockResult::Script(script) => keep_to_ourselves([&mut script.stdout, &mut script.stderr]),
                _ => {}
            }
        }
        Self::Done { outcome: Outcome::Blocks(Arc::new(outcome), took) }
    }
}

/// Where this machine keeps long outputs is no client's affair.
fn keep_to_ourselves(texts: [&mut Text; 2]) {
    for text in texts {
        (text.spill, text.spill_bytes) = (None, None);
    }
}

impl Stream for Run {
    type Item = Result<Happening, Refusal>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.record().interrupt().was_asked(context) {
            match &mut self.events {
                Events::Script(script) => script.interrupt(),
                // The kernel interrupts a cell of theirs, and their outcome says so. Nobody else reaches a script of theirs.
                Events::Blocks(blocks) if !blocks.in_cell.load(Ordering::Acquire) && blocks.all.is_some() => {
                    blocks.all = None;
                    self.started.end(End::Canceled);
                    let refusal = Refusal::new(
                        Code::Conflict,
                        "the blocks were interrupted: the session is unharmed, and what they had put out is not told",
                    );
                    return Poll::Ready(Some(Err(refusal)));
                }
                Events::Cell(_) | Events::Blocks(_) => {}
            }
        }
        if matches!(self.events, Events::Blocks(_)) {
            // They tell nothing before their end.
            self.started.note_start();
        }
        let begun = self.begun;
        let next = match &mut self.events {
            Events::Cell(events) => {
                events.poll_next_unpin(context).map(|next| next.map(|next| next.map(Happening::Cell)))
            }
            Events::Script(events) => {
                events.poll_next_unpin(context).map(|next| next.map(|next| next.map(Happening::Script)))
            }
            Events::Blocks(Blocks { all, .. }) => match all {
                None => Poll::Ready(None),
                Some(running) => running.poll_unpin(context).map(|ended| {
                    *all = None;
                    Some(ended.map(|outcome| Happening::Blocks(BlocksEvent::of(outcome, begun.elapsed()))))
                }),
            },
        };
        let Poll::Ready(mut next) = next else { return Poll::Pending };
        match &mut next {
            Some(Ok(Happening::Cell(Event::Done(execution)))) => {
                keep_to_ourselves([&mut execution.stdout, &mut execution.stderr]);
                self.done(Outcome::Cell(Arc::new((**execution).clone())));
            }
            Some(Ok(Happening::Script(ScriptEvent::Done(outcome)))) => {
                keep_to_ourselves([&mut outcome.stdout, &mut outcome.stderr]);
                self.done(Outcome::Script(Arc::new((**outcome).clone())));
            }
            Some(Ok(Happening::Blocks(BlocksEvent::Done { outcome }))) => self.done(outcome.clone()),
            Some(Ok(happening)) => self.started.note(happening),
            _ => {}
        }
        Poll::Ready(next.map(|next| next.map_err(|error| self.failed(&error))))
    }
}
