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
use tokio::task::JoinSet;

use super::entry::Lasts;
use super::{Entry, Slot, Store};
use crate::serve::identifier::Identifier;

const RECORD: &str = "sessions.json";

/// The record of one server's sessions, in a directory that only one server has at a time.
#[derive(Debug)]
pub(super) struct Kept {
    directory: PathBuf,
    /// Part of the names of all sessions of this record, through all its servers.
    server: String,
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
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Known {
    identifier: String,
    name: String,
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
                let server = uuid::Uuid::new_v4().simple().to_string()[..8].to_owned();
                Record { v: 1, server, sessions: Vec::new() }
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {place}/{RECORD}")),
        };
        let Record { server, sessions, .. } = record;
        let (directory, changed, writing) = (directory.to_owned(), Notify::new(), Mutex::default());
        Ok(Arc::new(Self { directory, server, found: sessions, changed, writing, _lock: lock }))
    }

    /// What the names of its sessions begin with.
    pub(super) fn prefix(&self) -> String {
        format!("serve-{}-", self.server)
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
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let sessions = self
            .list()
            .into_iter()
            .map(|entry| Known {
                identifier: entry.identifier.as_str().to_owned(),
                name: entry.session.name().to_owned(),
                created: seconds(entry.created),
                idle_seconds: entry.lasts().idle.as_secs_f64(),
                life_seconds: entry.lasts().life.as_secs_f64(),
                timeout_seconds: entry.timeout.map(|timeout| timeout.as_secs_f64()),
            })
            .collect();
        let kept = Arc::clone(kept);
        let written = tokio::task::spawn_blocking(move || kept.write(sessions)).await;
        if let Err(error) = written.map_err(anyhow::Error::from).flatten() {
            tracing::error!(error = format!("{error:#}"), "the record of the sessions could not be written");
        }
    }

    /// Takes over the sessions of the record. What else has one of our names was never given out, or is not known to have been: it ends.
    pub(super) async fn adopt(self: &Arc<Self>) {
        let Some(kept) = &self.kept else { return };
        let Ok(engine) = self.engine().await else {
            tracing::warn!("no engine answers: the sessions of an earlier server are not taken over");
            return;
        };
        let mut attaches = JoinSet::new();
        for known in kept.found.clone() {
            let attach = Session::attach(known.name.clone()).engine(Arc::clone(&engine)).timeout(self.config.timeout);
            attaches.spawn(async move { (known, attach.await) });
        }
        while let Some(attached) = attaches.join_next().await {
            match attached {
                Ok((known, Ok(session))) => self.take_over(&known, session),
                Ok((known, Err(error))) => {
                    tracing::warn!(session = known.name, %error, "a session could not be taken over");
                }
                Err(error) => tracing::error!(%error, "a session could not be taken over"),
            }
        }
        let prefix = kept.prefix();
        let held: Vec<String> = self.list().iter().map(|entry| entry.session.name().to_owned()).collect();
        for left in Session::list(engine.as_ref()).await.unwrap_or_default() {
            if left.name.starts_with(&prefix) && !held.contains(&left.name) {
                let _ = Session::remove(engine.as_ref(), &left.name).await;
            }
        }
        self.write_record().await;
    }

    fn take_over(&self, known: &Known, session: Session) {
        let Some(identifier) = Identifier::new(&known.identifier) else { return };
        let age = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_secs(known.created)).unwrap_or_default();
        let span = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let lasts = Lasts { idle: span(known.idle_seconds), life: span(known.life_seconds) };
        let timeout = known.timeout_seconds.map(span).filter(|timeout| !timeout.is_zero());
        tracing::info!(session = session.name(), "a session was taken over");
        let entry = Entry::new(identifier.clone(), session, lasts, timeout, age);
        self.lock().insert(identifier, Slot::Ready(entry));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::serve::config::{Ceiling, Sessions};
    use crate::serve::metrics::Metrics;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn store(directory: &Path) -> Arc<Store> {
        let config = Sessions {
            template: Session::builder(),
            ceiling: Ceiling { memory: 1, cpus: 1.0, pids: 1 },
            most: 1,
            warm: 0,
            idle: DAY,
            life: DAY,
            timeout: DAY,
            queue: 1,
            memory_reserve: 0,
        };
        Store::new(config, Some(directory), Arc::new(Metrics::new())).unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn writers_of_the_record_at_the_same_time_leave_no_half_of_one() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path());
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
        let store = store(directory.path());
        store.changed();
        store.drain();
        timeout(Duration::from_secs(60), Arc::clone(&store).keep_record()).await.unwrap();
        assert!(!directory.path().join(RECORD).exists(), "sessions that are let go of are in no list any more");
    }
}
