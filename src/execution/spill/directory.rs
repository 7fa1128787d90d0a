//! The directory of a session's spill files, and its budget.

use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Bytes of all spill files of a session.
const BUDGET: u64 = 1 << 30;

/// The spill files of one session: cheap to clone, made on first use.
///
/// Whoever owns the session removes it with the session.
#[derive(Debug, Clone)]
pub(crate) struct SpillDirectory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    budget: u64,
    account: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    opened: bool,
    /// Oldest first.
    files: VecDeque<Entry>,
    total: u64,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    path: PathBuf,
    bytes: u64,
    being_written: bool,
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct SpillFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

/// A file just made.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) file: SpillFile,
    pub(super) out: File,
}

impl SpillDirectory {
    /// A directory of which nothing exists yet but its parent; it is to hold nothing but spill files.
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self::with_budget(path, BUDGET)
    }

    pub(crate) fn with_budget(path: impl Into<PathBuf>, budget: u64) -> Self {
        Self(Arc::new(Inner { path: path.into(), budget, account: Mutex::default() }))
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.0.account()
    }

    /// Makes a file that did not exist, readable for its owner only.
    pub(super) fn create(&self, stream: &str) -> io::Result<Slot> {
        let mut account = self.account();
        if !account.opened {
            account.open(&self.0.path)?;
        }
        loop {
            account.next += 1;
            let path = self.0.path.join(format!("{stream}-{}.txt", account.next));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(out) => {
                    account.files.push_back(Entry { path: path.clone(), bytes: 0, being_written: true });
                    return Ok(Slot { file: SpillFile { path, bytes: 0 }, out });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes room for more bytes, the oldest complete files making it.
    pub(super) fn grow(&self, file: &mut SpillFile, more: usize) -> bool {
        let mut account = self.account();
        let more = more as u64;
        while account.total + more > self.0.budget {
            let Some(oldest) = account.files.iter().position(|entry| !entry.being_written) else { return false };
            account.forget(oldest);
        }
        let Some(entry) = account.files.iter_mut().find(|entry| entry.path == file.path) else { return false };
        entry.bytes += more;
        file.bytes += more;
        account.total += more;
        true
    }

    pub(super) fn complete(&self, file: &SpillFile) {
        if let Some(entry) = self.account().files.iter_mut().find(|entry| entry.path == file.path) {
            entry.being_written = false;
        }
    }

    pub(super) fn discard(&self, file: &SpillFile) {
        let mut account = self.account();
        if let Some(index) = account.files.iter().position(|entry| entry.path == file.path) {
            account.forget(index);
        }
    }
}

impl Inner {
    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Makes the directory, or counts what an earlier controller of the session left in it.
    fn open(&mut self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.adopt(path)?,
            Err(error) => return Err(error),
        }
        self.opened = true;
        Ok(())
    }

    fn adopt(&mut self, path: &Path) -> io::Result<()> {
        if !path.symlink_metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "the place for spill files is no directory"));
        }
        let mut found = Vec::new();
        for entry in path.read_dir()? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((modified, Entry { path: entry.path(), bytes: metadata.len(), being_written: false }));
        }
        found.sort_by_key(|(modified, _)| *modified);
        self.files = found.into_iter().map(|(_, entry)| entry).collect();
        self.total = self.files.iter().map(|entry| entry.bytes).sum();
        Ok(())
    }

    fn forget(&mut self, index: usize) {
        if let Some(entry) = self.files.remove(index) {
            self.total -= entry.bytes;
            if let Err(error) = std::fs::remove_file(&entry.path) {
                tracing::warn!(path = %entry.path.display(), %error, "cannot remove a spill file");
            }
        }
    }
}
