//! The executions of one session: those that run or wait, and the latest that have ended.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use cellblock::Output;
use futures_util::task::AtomicWaker;
use tokio::sync::watch;

use super::id::ExecutionId;
use super::live::Live;
use super::run::Happening;
use super::work::{Form, Outcome, Request, Work};
use crate::serve::refusal::{Code, Refusal};

/// How many ended executions are remembered, and how many bytes of them in all.
const MOST_ENDED: usize = 64;
const MOST_BYTES: usize = 16 << 20;

/// How an execution ended.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Done(Outcome),
    /// It was interrupted, or whoever had asked for it went away before it ran.
    Canceled,
    Failed(Refusal),
}

/// One execution.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) id: ExecutionId,
    pub(crate) asynchronous: bool,
    pub(crate) work: Work,
    /// Also whoever asks later gets the result so.
    pub(crate) form: Form,
    pub(crate) submitted: SystemTime,
    started: OnceLock<SystemTime>,
    live: Mutex<Live>,
    /// The history's revision when this last changed.
    revision: AtomicU64,
    interrupt: Interrupt,
    end: watch::Sender<Option<End>>,
}

/// Asks whoever polls an execution to interrupt it.
#[derive(Debug, Default)]
pub(super) struct Interrupt {
    asked: AtomicBool,
    waker: AtomicWaker,
}

impl Interrupt {
    fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether it was asked since the last time; wakes the task when it is.
    pub(super) fn was_asked(&self, context: &std::task::Context<'_>) -> bool {
        self.waker.register(context.waker());
        self.asked.swap(false, Ordering::AcqRel)
    }
}

impl Record {
    /// How it ended; none while it has not.
    pub(crate) fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }

    pub(crate) fn started(&self) -> Option<SystemTime> {
        self.started.get().copied()
    }

    /// The latest outputs of one that has not ended.
    pub(crate) fn outputs(&self) -> Vec<Output> {
        self.live().outputs()
    }

    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn size(&self) -> usize {
        let outcome = match &*self.end.borrow() {
            Some(End::Done(outcome)) => outcome.size(),
            _ => 0,
        };
        self.work.size() + outcome
    }
}

/// A session's executions in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Records>);

#[derive(Debug, Default)]
struct Records {
    list: VecDeque<Arc<Record>>,
    /// Counts every change of any of them.
    revision: u64,
}

impl Records {
    fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }
}

impl History {
    /// Notes a new execution, if not too many run or wait already.
    pub(crate) fn begin(self: &Arc<Self>, request: Request, most: usize) -> Result<Started, Refusal> {
        let mut records = self.lock();
        if records.list.iter().filter(|record| record.end.borrow().is_none()).count() >= most {
            return Err(Refusal::new(
                Code::TooManyExecutions,
                format!("{most} executions run or wait in this session, as many as this server allows"),
            ));
        }
        if records.list.iter().any(|known| known.id == request.id) {
            return Err(Refusal::new(Code::Conflict, "an execution of this session has this id already"));
        }
        let record = Arc::new(Record {
            id: request.id,
            asynchronous: request.asynchronous,
            work: request.work,
            form: request.form,
            submitted: SystemTime::now(),
            started: OnceLock::new(),
            live: Mutex::default(),
            revision: AtomicU64::new(records.next_revision()),
            interrupt: Interrupt::default(),
            end: watch::Sender::new(None),
        });
        records.list.push_back(Arc::clone(&record));
        Ok(Started { record, history: Arc::clone(self) })
    }

    pub(crate) fn get(&self, id: &str) -> Result<Arc<Record>, Refusal> {
        self.lock()
            .list
            .iter()
            .find(|record| record.id.as_str() == id)
            .cloned()
            .ok_or_else(|| Refusal::new(Code::ExecutionNotFound, "there is no execution with this id in this session"))
    }

    /// All that is remembered, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Record>> {
        self.lock().list.iter().cloned().collect()
    }

    /// Those that changed after this revision, the oldest first, and the revision now.
    pub(crate) fn since(&self, revision: u64) -> (u64, Vec<Arc<Record>>) {
        let records = self.lock();
        let changed = records.list.iter().filter(|record| record.revision.load(Ordering::Acquire) > revision);
        (records.revision, changed.cloned().collect())
    }

    /// Interrupts the scripts and programs that run. Cells are the kernel's.
    pub(crate) fn interrupt_scripts(&self) {
        for record in self.lock().list.iter().filter(|record| !record.work.is_cell()) {
            record.interrupt.ask();
        }
    }

    /// Forgets the oldest of those that have ended, but never the newest of them.
    fn trim(&self) {
        let records = &mut self.lock().list;
        let (mut count, mut bytes) = (0, 0);
        let mut kept: VecDeque<_> = VecDeque::with_capacity(records.len());
        for record in records.drain(..).rev() {
            if record.end.borrow().is_some() {
                count += 1;
                bytes += record.size();
                if count > MOST_ENDED || (bytes > MOST_BYTES && count > 1) {
                    continue;
                }
            }
            kept.push_front(record);
        }
        *records = kept;
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An execution under way; canceled, unless it is said how it ended.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) record: Arc<Record>,
    history: Arc<History>,
}

impl Started {
    pub(super) fn note(&self, happening: &Happening) {
        self.record.started.get_or_init(SystemTime::now);
        self.record.live().note(happening);
        self.changed();
    }

    fn changed(&self) {
        let mut records = self.history.lock();
        self.record.revision.store(records.next_revision(), Ordering::Release);
    }

    pub(crate) fn end(&self, end: End) {
        let first = self.record.end.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(end);
            first
        });
        if first {
            *self.record.live() = Live::default();
            self.changed();
            self.history.trim();
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end(End::Canceled);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cellblock::Event;

    use super::super::work::Work;
    use super::*;

    fn begin(history: &Arc<History>, code: &str) -> Started {
        let request = Request {
            id: ExecutionId::random(),
            work: Work::Cell(code.to_owned()),
            timeout: Duration::from_secs(1),
            asynchronous: false,
            form: Form::default(),
        };
        history.begin(request, 100).unwrap()
    }

    #[test]
    fn whoever_looks_again_sees_what_has_changed_since() {
        let history = Arc::new(History::default());
        let (first, second) = (begin(&history, "1"), begin(&history, "2"));
        let (seen, all) = history.since(0);
        assert_eq!(all.len(), 2);
        assert!(history.since(seen).1.is_empty());

        second.note(&Happening::Cell(Event::Stdout("out".to_owned())));
        let (seen, changed) = history.since(seen);
        assert!(matches!(changed[..], [ref one] if one.id == second.record.id));
        assert!(changed[0].started().is_some() && changed[0].outputs().len() == 1);

        drop(second);
        let (seen, changed) = history.since(seen);
        assert!(matches!(changed[..], [ref one] if one.end().is_some() && one.outputs().is_empty()));
        drop(first);
        assert_eq!(history.since(seen).1.len(), 1);
    }

    #[test]
    fn the_latest_that_ended_are_remembered_within_bounds() {
        let history = Arc::new(History::default());
        let running = begin(&history, "running");
        for _ in 0..2 * MOST_ENDED {
            begin(&history, "small");
        }
        assert_eq!(history.all().len(), MOST_ENDED + 1);
        for _ in 0..4 {
            begin(&history, &"x".repeat(MOST_BYTES / 2));
        }
        assert_eq!(history.all().len(), 2 + 1);
        begin(&history, &"x".repeat(2 * MOST_BYTES));
        let left = history.all();
        assert_eq!(left.len(), 1 + 1, "the newest, and the one that has not ended");
        assert_eq!(left[0].id, running.record.id);
    }
}
