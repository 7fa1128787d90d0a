//! The blocks of a message on their way: what happens in each, as it happens.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use cellblock::{BlockOutcome, BlockResult, BlocksEvent as Told, BlocksOutcome, CodeBlock, Error, Policy, Session};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::run::{Happening, keep_to_ourselves};
use super::work::Outcome;

/// What is told of blocks besides what happens in their cells and scripts.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum BlocksEvent {
    BlockBegun { index: usize, language: String },
    BlockEnded { index: usize, outcome: Value },
    Done { outcome: Outcome },
}

/// A stream of what happens. Dropped, it interrupts the block that runs, and begins no other.
pub(super) struct Blocks {
    /// None once they have ended.
    all: Option<BoxFuture<'static, ()>>,
    /// What was told and not taken yet. They go on only once all of it is taken: no more waits here than comes at once.
    told: UnboundedReceiver<Result<Happening, Error>>,
    in_cell: Arc<AtomicBool>,
}

impl Blocks {
    pub(super) fn begin(
        session: &Session,
        blocks: &[CodeBlock],
        policy: &Policy,
        timeout: Duration,
        keep_going: bool,
    ) -> Self {
        let (session, blocks, policy) = (session.clone(), blocks.to_vec(), policy.clone());
        let in_cell = Arc::new(AtomicBool::new(false));
        let (noted, begun) = (Arc::clone(&in_cell), Instant::now());
        let (tell, told) = unbounded_channel();
        let all = async move {
            let mut current = 0;
            let run = session.run_blocks(&blocks, &policy).timeout(timeout).keep_going(keep_going);
            let run = run.on_event(|event| {
                noted.store(matches!(event, Told::Cell(_)), Ordering::Release);
                if let Told::Begun { index, .. } = event {
                    current = index;
                }
                if let Some(happening) = happening(event, current) {
                    let _ = tell.send(Ok(happening));
                }
            });
            let outcome = run.await;
            let _ = tell.send(outcome.map(|outcome| Happening::Blocks(BlocksEvent::of(outcome, begun.elapsed()))));
        };
        Self { all: Some(all.boxed()), told, in_cell }
    }

    /// Drops them, unless a cell of theirs runs, or they have ended.
    pub(super) fn drop_script(&mut self) -> bool {
        let drops = !self.in_cell.load(Ordering::Acquire) && self.all.is_some();
        if drops {
            self.all = None;
            while self.told.try_recv().is_ok() {}
        }
        drops
    }
}

impl Stream for Blocks {
    type Item = Result<Happening, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Ok(next) = self.told.try_recv() {
                return Poll::Ready(Some(next));
            }
            let Some(all) = &mut self.all else { return Poll::Ready(None) };
            match all.poll_unpin(context) {
                Poll::Ready(()) => self.all = None,
                Poll::Pending if self.told.is_empty() => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }
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

fn happening(event: Told<'_>, index: usize) -> Option<Happening> {
    match event {
        Told::Begun { index, language } => {
            Some(Happening::Blocks(BlocksEvent::BlockBegun { index, language: language.to_owned() }))
        }
        Told::Cell(event) => Some(Happening::Cell(event.clone())),
        Told::Script(event) => Some(Happening::Script(event.clone())),
        Told::Ended(outcome) => Some(Happening::Blocks(BlocksEvent::BlockEnded { index, outcome: shown(outcome)? })),
        _ => None,
    }
}

/// As the whole has it later, which is not there yet to be changed.
fn shown(outcome: &BlockOutcome) -> Option<Value> {
    let mut shown = serde_json::to_value(outcome).ok()?;
    for (ran, stream) in ["execution", "script"].into_iter().flat_map(|ran| ["stdout", "stderr"].map(|to| (ran, to))) {
        if let Some(text) = shown.pointer_mut(&format!("/{ran}/{stream}")).and_then(Value::as_object_mut) {
            text.extend(["spill", "spill_bytes"].map(|name| (name.to_owned(), Value::Null)));
        }
    }
    Some(shown)
}
