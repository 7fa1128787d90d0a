//! The host's directory of a session: its sockets and its lock.
//!
//! `BASE/ID/` is 0700; only its subdirectory `in` is ever mounted, read-only. Paths stay well under the 107 bytes of a socket's name.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::process::getuid;

use super::registry::Lease;
use crate::Engine;
use crate::error::{Error, Kind};
use crate::transport::remove_left;

/// A sweep removes a directory within a moment. One that was stopped in the middle keeps nobody from starting a session.
const SWEEP_WAIT: Duration = Duration::from_secs(1);
const SWEEP_RETRY: Duration = Duration::from_millis(5);

/// A session's directory, held by a lock that ends with the process.
#[derive(Debug)]
pub(crate) struct HostDirectory {
    path: PathBuf,
    id: String,
    lock: File,
}

impl HostDirectory {
    /// Makes and locks the directory of a new session.
    pub(super) async fn create(lease: Lease, engine: &dyn Engine) -> Result<Self, Error> {
        let id = uuid::Uuid::new_v4().simple().to_string().split_off(20);
        let engine = engine.identity().await;
        let _making = making(&base()?).await;
        let directory = Self::open(id, true)?;
        match directory.mark(lease, engine) {
            Ok(()) => Ok(directory),
            Err(error) => {
                directory.remove();
                Err(error)
            }
        }
    }

    /// Locks the directory of a detached session that runs, making it anew if it is gone.
    pub(super) async fn reopen(id: &str, engine: &dyn Engine) -> Result<Self, Error> {
        let engine = engine.identity().await;
        let _making = making(&base()?).await;
        let directory = Self::open_by_label(id)?;
        if directory.lock.metadata().is_ok_and(|lock| lock.len() == 0) {
            directory.mark(Lease::Detached, engine)?;
        }
        Ok(directory)
    }

    fn open_by_label(id: &str) -> Result<Self, Error> {
        if id.is_empty() || id.len() > 32 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Error::new(Kind::Protocol, "cannot read the session's label of its host directory"));
        }
        Self::open(id.to_owned(), false)
    }

    /// Says in the lock's file whose it is.
    fn mark(&self, lease: Lease, engine: Option<String>) -> Result<(), Error> {
        let mark = format!("{} {}", lease.word(), engine.unwrap_or_default());
        (&self.lock)
            .write_all(mark.as_bytes())
            .map_err(|error| Error::new(Kind::Io, "cannot write into the session's directory").with_source(error))
    }

    fn open(id: String, new: bool) -> Result<Self, Error> {
        let base = base()?;
        let path = base.join(&id);
        let failed = |error| {
            Error::new(Kind::Io, format!("cannot make the session's directory {}", path.display())).with_source(error)
        };
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !new => {}
            made => made.map_err(failed)?,
        }
        let mounted = path.join("in");
        if let Err(error) = DirBuilder::new().create(&mounted)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(failed(error));
        }
        // The umask may have taken bits that the container's user needs to reach the socket.
        std::fs::set_permissions(&mounted, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
        let lock = lock(&path).map_err(failed)?.ok_or_else(|| {
            Error::new(Kind::Held, "cannot take hold of the session").with_source("another controller holds it")
        })?;
        remove_left(&mounted);
        Ok(Self { path, id, lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is mounted into the container.
    pub(super) fn mounted(&self) -> PathBuf {
        self.path.join("in")
    }

    /// Its name, which the container's label tells the next holder.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Removes it with the session's spill files: the session has ended.
    pub(super) fn remove(self) {
        for path in [&self.path, &spill_base().join(&self.id)] {
            if let Err(error) = std::fs::remove_dir_all(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "a directory of the session could not be removed");
            }
        }
    }
}

/// Removes the directories of sessions that nobody holds and that `is_over` says are of no use, and spill files that
/// belong to no session.
pub(super) fn sweep(is_over: impl Fn(&str, Lease, &str) -> bool) {
    let Ok(base) = base() else { return };
    for path in entries(&base) {
        let Some(id) = path.file_name().and_then(|id| id.to_str()) else { continue };
        let mark = match std::fs::read_to_string(path.join("lock")) {
            Ok(mark) => mark,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(_) => continue,
        };
        let (word, engine) = mark.split_once(' ').unwrap_or((&mark, ""));
        // Where nobody is at making one, whoever made or removed this one was killed in the middle.
        let nobody = mark.is_empty().then(|| flock(&base, FlockOperation::NonBlockingLockExclusive));
        let over = match &nobody {
            Some(nobody) => matches!(nobody, Ok(Some(_))),
            None => Lease::of_word(word).is_some_and(|lease| is_over(id, lease, engine)),
        };
        if over && let Ok(Some(_lock)) = lock(&path) {
            tracing::debug!(path = %path.display(), "removing the directory of a session that is over");
            let _ = std::fs::remove_dir_all(&path);
        }
    }
    for path in entries(&spill_base()) {
        if path.file_name().is_some_and(|id| !base.join(id).exists()) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Whether a living controller holds the session with this directory.
pub(super) fn is_held(id: &str) -> bool {
    base().is_ok_and(|base| base.join(id).join("lock").exists() && matches!(lock(&base.join(id)), Ok(None)))
}

/// Removes the directory of a session that was ended by its name, unless somebody still holds it and will.
pub(super) fn remove(id: &str) {
    if let Ok(directory) = HostDirectory::open_by_label(id) {
        directory.remove();
    }
}

/// Where a session's long texts go: on a disk, not in the memory that a runtime directory usually is.
pub(super) fn spill_path(id: &str) -> Result<PathBuf, Error> {
    let base = spill_base();
    base.parent().map_or(Ok(()), own_directory)?;
    own_directory(&base)?;
    Ok(base.join(id))
}

/// Where this user's sessions keep what they have on this machine, whatever the environment of their controllers.
pub(super) fn bases() -> [PathBuf; 3] {
    let spills = spill_base();
    let spills = spills.parent().map_or_else(|| spills.clone(), Path::to_owned);
    [base_path(), fallback_path(), spills]
}

/// One for each place of directories: where the environment differs, so do they, and what is nobody's here may be somebody's there.
fn spill_base() -> PathBuf {
    let place = base_path().display().to_string().trim_start_matches('/').replace('/', "-");
    PathBuf::from(format!("/var/tmp/cellblock-{}", getuid().as_raw())).join(place)
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn lock(directory: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(directory.join("lock"))?;
    hold(file, FlockOperation::NonBlockingLockExclusive)
}

/// Held while a directory is made, until it says whose it is: a sweep leaves those alone that do not say this yet.
async fn making(base: &Path) -> Option<File> {
    let until = Instant::now() + SWEEP_WAIT;
    loop {
        match flock(base, FlockOperation::NonBlockingLockShared) {
            Ok(None) if Instant::now() < until => tokio::time::sleep(SWEEP_RETRY).await,
            held => return held.ok().flatten(),
        }
    }
}

fn flock(directory: &Path, operation: FlockOperation) -> io::Result<Option<File>> {
    hold(File::open(directory)?, operation)
}

fn hold(file: File, operation: FlockOperation) -> io::Result<Option<File>> {
    match rustix::fs::flock(&file, operation) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Where the directories are, checked to be ours alone.
fn base() -> Result<PathBuf, Error> {
    let path = base_path();
    own_directory(&path)?;
    Ok(path)
}

/// `$XDG_RUNTIME_DIR/cellblock`, for root `/run/cellblock`, else `/tmp/cellblock-UID`.
fn base_path() -> PathBuf {
    if getuid().is_root() {
        return fallback_path();
    }
    std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() && path.as_os_str().len() <= 48)
        .map_or_else(fallback_path, |path| path.join("cellblock"))
}

fn fallback_path() -> PathBuf {
    let uid = getuid();
    if uid.is_root() { "/run/cellblock".into() } else { format!("/tmp/cellblock-{}", uid.as_raw()).into() }
}

/// Makes a 0700 directory, or checks that the one that is there is ours, no symbolic link, and closed to others.
fn own_directory(path: &Path) -> Result<(), Error> {
    let attempted = || format!("cannot use the directory {}", path.display());
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::new(Kind::Io, attempted()).with_source(error));
        }
        _ => {}
    }
    let metadata =
        std::fs::symlink_metadata(path).map_err(|error| Error::new(Kind::Io, attempted()).with_source(error))?;
    if !metadata.is_dir() || metadata.uid() != getuid().as_raw() || metadata.mode() & 0o077 != 0 {
        return Err(Error::new(Kind::Io, attempted())
            .with_source("it is not a directory that belongs to this user alone (0700)")
            .with_hint(format!("look who made it, then `rm -r {}`", path.display())));
    }
    Ok(())
}
