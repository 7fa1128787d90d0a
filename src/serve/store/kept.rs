//! Which sessions the next start takes over.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use cellblock::Session;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, MutexGuard, Notify};

use super::entry::Lasts;
use super::{Entry, Slot, Slots, Store};
use crate::serve::identifier::Identifier;

const RECORD: &str = "sessions.json";

/// The record of one server's sessions, in a directory that only one server has at a time.
#[derive(Debug)]
pub(super) struct Kept {
    directory: PathBuf,
    /// Part of the names of all sessions of this record, through all its servers.
    server: String,
    /// Part of the names of this server's own.
    run: String,
    found: Vec<Known>,
    changed: Notify,
    /// A record is the sessions of one moment, written before that of a later one.
    writing: Mutex<()>,
    _lock: File,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    v: u32,
    server: String,
    sessions: Vec<Known>,
}

/// A session as it is recorded. Its identifier lets whoever reads it in: the file is its owner's alone.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Known {
    identifier: String,
    pub(super) name: String,
    created: u64,
    idle_seconds: f64,
    life_seconds: f64,
    /// That of its cells, where it is one of its own.
    #[serde(default)]
    timeout_seconds: Option<f64>,
}

impl Kept {
    pub(super) fn open(directory: &Path) -> Result<Arc<Self>> {
        let place = directory.display();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .with_context(|| format!("cannot make the directory {place} for `--keep-sessions`"))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(directory.join("lock"))
            .with_context(|| format!("cannot write in {place}"))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another server keeps its sessions in {place}: give this one a `--state-dir` of its own");
        }
        let record = match fs::read(directory.join(RECORD)) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
                format!("cannot read {place}/{RECORD}: move it away to start without the sessions of an earlier server")
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Record { v: 1, server: word(8), sessions: Vec::new() }
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {place}/{RECORD}")),
        };
        let Record { server, sessions, .. } = record;
        let (directory, changed, writing) = (directory.to_owned(), Notify::new(), Mutex::default());
        Ok(Arc::new(Self { directory, server, run: word(6), found: sessions, changed, writing, _lock: lock }))
    }

    /// What the names of the record's sessions begin with.
    pub(super) fn prefix(&self) -> String {
        format!("serve-{}-", self.server)
    }

    /// What those of this server's own begin with.
    pub(super) fn own_prefix(&self) -> String {
        format!("{}{}-", self.prefix(), self.run)
    }

    /// Whether an earlier server has given out a session of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.found.iter().any(|known| known.name == name)
    }

    /// The sessions that earlier servers have given out.
    pub(super) fn left(&self) -> Slots {
        let slot = |known: &Known| Some((Identifier::new(&known.identifier)?, Slot::Left(Arc::new(known.clone()))));
        self.found.iter().filter_map(slot).collect()
    }

    /// Whole or not at all.
    fn write(&self, sessions: Vec<Known>) -> Result<()> {
        let record = serde_json::to_vec(&Record { v: 1, server: self.server.clone(), sessions })?;
        let (new, old) = (self.directory.join("sessions.json.new"), self.directory.join(RECORD));
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        file.write_all(&record)?;
        file.sync_data()?;
        fs::rename(new, old)?;
        Ok(())
    }
}

impl Store {
    /// The record is to be written again.
    pub(super) fn changed(&self) {
        if let Some(kept) = &self.kept {
            kept.changed.notify_one();
        }
    }

    pub(super) async fn keep_record(self: Arc<Self>) {
        let Some(kept) = &self.kept else { return };
        loop {
            kept.changed.notified().await;
            let writing = kept.writing.lock().await;
            // The last record is that of the store's end: what it lets go of is in no list.
            if self.is_draining() {
                return;
            }
            self.write_record_now(kept, &writing).await;
        }
    }

    pub(super) async fn write_record(&self) {
        let Some(kept) = &self.kept else { return };
        self.write_record_now(kept, &kept.writing.lock().await).await;
    }

    async fn write_record_now(&self, kept: &Arc<Kept>, _writing: &MutexGuard<'_, ()>) {
        let known = |slot: &Slot| match slot {
            Slot::Ready(entry) => (!entry.is_over()).then(|| Known::of(entry)),
            Slot::Left(known) => Some(Known::clone(known)),
            Slot::Starting { left, .. } => left.as_deref().cloned(),
        };
        let sessions = self.lock().values().filter_map(known).collect();
        let kept = Arc::clone(kept);
        let written = tokio::task::spawn_blocking(move || kept.write(sessions)).await;
        if let Err(error) = written.map_err(anyhow::Error::from).flatten() {
            tracing::error!(error = format!("{error:#}"), "the record of the sessions could not be written");
        }
    }
}

impl Known {
    fn of(entry: &Entry) -> Self {
        let created = entry.created.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            identifier: entry.identifier.as_str().to_owned(),
            name: entry.session.name().to_owned(),
            created,
            idle_seconds: entry.lasts().idle.as_secs_f64(),
            life_seconds: entry.lasts().life.as_secs_f64(),
            timeout_seconds: entry.timeout.map(|timeout| timeout.as_secs_f64()),
        }
    }

    pub(super) fn entry(&self, identifier: Identifier, session: Session) -> Arc<Entry> {
        let age = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_secs(self.created)).unwrap_or_default();
        let span = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let lasts = Lasts { idle: span(self.idle_seconds), life: span(self.life_seconds) };
        let timeout = self.timeout_seconds.map(span).filter(|timeout| !timeout.is_zero());
        Entry::new(identifier, session, lasts, timeout, age)
    }
}

fn word(length: usize) -> String {
    uuid::Uuid::new_v4().simple().to_string().chars().take(length).collect()
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;
    use tokio::time::timeout;

    use super::*;
    use crate::serve::store::tests::store;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn writers_of_the_record_at_the_same_time_leave_no_half_of_one() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(Some(directory.path()));
        store.write_record().await;
        let mut writers = JoinSet::new();
        for _ in 0..4 {
            let store = Arc::clone(&store);
            writers.spawn(async move {
                for _ in 0..50 {
                    store.write_record().await;
                }
            });
        }
        while !writers.is_empty() {
            let record = fs::read(directory.path().join(RECORD)).unwrap();
            serde_json::from_slice::<Record>(&record).unwrap();
            while let Some(written) = writers.try_join_next() {
                written.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn the_record_of_a_stores_end_is_its_last() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(Some(directory.path()));
        store.changed();
        store.drain();
        timeout(Duration::from_secs(60), Arc::clone(&store).keep_record()).await.unwrap();
        assert!(!directory.path().join(RECORD).exists(), "sessions that are let go of are in no list any more");
    }
}
