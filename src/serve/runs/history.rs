//! The executions of one session: those that run or wait, and the latest that have ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;

use super::id::ExecutionId;
use super::work::{Outcome, Request, Work};
use crate::serve::refusal::{Code, Refusal};

/// How many ended executions are remembered, and how many bytes of them in all.
const MOST_ENDED: usize = 64;
const MOST_BYTES: usize = 16 << 20;

/// How an execution ended.
#[derive(Debug, Clone)]
pub(crate) enum End {
    Done(Outcome),
    /// Whoever had asked for it went away: it was interrupted, or never ran.
    Canceled,
    Failed(Refusal),
}

/// One execution.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) id: ExecutionId,
    pub(crate) asynchronous: bool,
    pub(crate) work: Work,
    pub(crate) submitted: SystemTime,
    started: OnceLock<()>,
    end: watch::Sender<Option<End>>,
}

impl Record {
    /// How it ended; none while it has not.
    pub(crate) fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }

    pub(crate) fn has_started(&self) -> bool {
        self.started.get().is_some()
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
pub(crate) struct History(Mutex<VecDeque<Arc<Record>>>);

impl History {
    /// Notes a new execution, if not too many run or wait already.
    pub(crate) fn begin(self: &Arc<Self>, request: Request, most: usize) -> Result<Started, Refusal> {
        let mut records = self.lock();
        if records.iter().filter(|record| record.end.borrow().is_none()).count() >= most {
            return Err(Refusal::new(
                Code::TooManyExecutions,
                format!("{most} executions run or wait in this session, as many as this server allows"),
            ));
        }
        if records.iter().any(|known| known.id == request.id) {
            return Err(Refusal::new(Code::Conflict, "an execution of this session has this id already"));
        }
        let record = Arc::new(Record {
            id: request.id,
            asynchronous: request.asynchronous,
            work: request.work,
            submitted: SystemTime::now(),
            started: OnceLock::new(),
            end: watch::Sender::new(None),
        });
        records.push_back(Arc::clone(&record));
        Ok(Started { record, history: Arc::clone(self) })
    }

    pub(crate) fn get(&self, id: &str) -> Result<Arc<Record>, Refusal> {
        self.lock()
            .iter()
            .find(|record| record.id.as_str() == id)
            .cloned()
            .ok_or_else(|| Refusal::new(Code::ExecutionNotFound, "there is no execution with this id in this session"))
    }

    /// All that is remembered, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Record>> {
        self.lock().iter().cloned().collect()
    }

    /// Forgets the oldest of those that have ended, but never the newest of them.
    fn trim(&self) {
        let mut records = self.lock();
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

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Record>>> {
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
    pub(crate) fn note_start(&self) {
        let _ = self.record.started.set(());
    }

    pub(crate) fn end(&self, end: End) {
        let first = self.record.end.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert(end);
            first
        });
        if first {
            self.history.trim();
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end(End::Canceled);
    }
}
