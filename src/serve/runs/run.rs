//! An execution on its way: its events as they come, and its record.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use cellblock::{Error, Event, OnDrop, Ran, RunStream, ScriptEvent, ScriptStream, State, Text};
use futures_util::{Stream, StreamExt as _};
use serde::Serialize;
use tracing::Span;

use super::blocks::{Blocks, BlocksEvent};
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

enum Events {
    Cell(RunStream),
    Script(ScriptStream),
    Blocks(Blocks),
}

/// A stream of what happens. Dropped before its end, it interrupts what runs, and the session lives.
pub(crate) struct Run {
    events: Events,
    started: Started,
    held: Held,
    store: Arc<Store>,
    span: Span,
}

impl Run {
    /// Notes it in the session's history; it runs when polled.
    pub(crate) fn begin(store: &Arc<Store>, held: Held, request: Request) -> Result<Self, Refusal> {
        let span = tracing::info_span!("execution", session = held.session.name(), execution = %request.id);
        let events = events(&held, &request);
        let started = held.history.begin(request, store.config().queue)?;
        Ok(Self { events, started, held, store: Arc::clone(store), span })
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
            return Events::Blocks(Blocks::begin(session, blocks, policy, timeout, *keep_going));
        }
    };
    let script = script.timeout(timeout).on_drop(OnDrop::Interrupt);
    Events::Script(match stdin {
        Some(stdin) => script.stdin(stdin.as_bytes()).stream(),
        None => script.stream(),
    })
}

/// Where this machine keeps long outputs is no client's affair.
pub(super) fn keep_to_ourselves(texts: [&mut Text; 2]) {
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
                Events::Blocks(blocks) => {
                    if blocks.drop_script() {
                        self.started.end(End::Canceled);
                        let message = "the blocks were interrupted: the session is unharmed, and they have no outcome";
                        return Poll::Ready(Some(Err(Refusal::new(Code::Conflict, message))));
                    }
                }
                Events::Cell(_) => {}
            }
        }
        let next = match &mut self.events {
            Events::Cell(events) => events.poll_next_unpin(context).map_ok(Happening::Cell),
            Events::Script(events) => events.poll_next_unpin(context).map_ok(Happening::Script),
            Events::Blocks(events) => events.poll_next_unpin(context),
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
