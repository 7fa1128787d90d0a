//! Files and directories of the host into a session.

use std::ffi::{CStr, CString};
use std::fmt;
use std::fs::File;
use std::future::IntoFuture;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::Files;
use super::failure::{Attempt, Failure};
use super::names::{WorkPath, is_plain};
use super::transfer::{Account, Observer, Progress, SkipReason, Transfer, on_thread, put};
use super::wire::{CHUNK, Sender};
use crate::Error;
use crate::error::Kind;

/// How deep a tree may be; each level is an open directory.
const DEPTH_LIMIT: usize = 64;
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A copy of a file or a directory of the host into the session; a future of what was moved.
///
/// # Errors
///
/// The source cannot be read, the path cannot take it, or no space is left. Nothing of it is in the session then.
///
/// # Cancel safety
///
/// If the future is dropped, nothing of it is in the session, or all of it, if it had just been done.
#[must_use = "an upload does nothing unless awaited"]
pub struct Upload {
    files: Files,
    source: PathBuf,
    path: String,
    observer: Option<Observer>,
}

impl Upload {
    pub(super) fn new(files: Files, source: PathBuf, path: String) -> Self {
        Self { files, source, path, observer: None }
    }

    /// Is told how far it is, on another thread: for every file, and several times for a large one. It is dropped when the transfer is over, also one that was
    /// given up, and what it had begun on the host is gone.
    pub fn progress(mut self, observer: impl FnMut(Progress) + Send + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("source", &self.source).field("path", &self.path).finish_non_exhaustive()
    }
}

impl IntoFuture for Upload {
    type Output = Result<Transfer, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move {
            let Self { files, source, path, observer } = self;
            let text = format!("cannot put {} into the session as {path:?}", source.display());
            let attempt = Attempt::new(text, &files.handle);
            let path = WorkPath::parse(&path, &attempt)?;
            path.check_change(&attempt)?;
            let (programs, runs) = (files.programs.clone(), attempt.clone());
            let upload = move || async move {
                let source = Source::open(&source).map_err(|error| unreadable(&runs, error))?;
                let mut account = Account::new(observer);
                let size = source.size();
                let upload = async |sender: &mut Sender| source.send(sender, &mut account, &runs).await;
                put(&files, &path, size, &runs, upload).await?;
                Ok(account.transfer)
            };
            on_thread(&programs, &attempt, upload).await
        }
        .boxed()
    }
}

fn unreadable(attempt: &Attempt, error: Errno) -> Error {
    attempt.error(Kind::Usage).with_source(format!("it cannot be read here: {}", std::io::Error::from(error)))
}

/// What is copied, open. A link that the caller names is followed; those in a tree are not.
enum Source {
    File(OwnedFd),
    Directory(OwnedFd),
    Neither,
}

impl Source {
    fn open(path: &std::path::Path) -> Result<Self, Errno> {
        let opened = openat(CWD, path, READ, Mode::empty())?;
        Ok(match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
            FileType::RegularFile => Self::File(opened),
            FileType::Directory => Self::Directory(opened),
            _ => Self::Neither,
        })
    }

    fn size(&self) -> Option<u64> {
        let Self::File(file) = self else { return None };
        fstat(file).ok().map(|status| status.st_size.unsigned_abs())
    }

    async fn send(self, sender: &mut Sender, account: &mut Account, attempt: &Attempt) -> Result<(), Failure> {
        match self {
            Self::File(file) => {
                account.expect(fstat(&file).map_err(|error| unreadable(attempt, error))?.st_size.unsigned_abs());
                send_file(file, "", sender, account, attempt).await
            }
            Self::Directory(directory) => send_tree(directory, sender, account, attempt).await,
            Self::Neither => {
                Err(attempt.error(Kind::Usage).with_source("it is neither a regular file nor a directory").into())
            }
        }
    }
}

async fn send_file(
    file: OwnedFd,
    path: &str,
    sender: &mut Sender,
    account: &mut Account,
    attempt: &Attempt,
) -> Result<(), Failure> {
    let executable = fstat(&file).is_ok_and(|status| status.st_mode & 0o100 != 0);
    sender.file(path, executable).await?;
    let mut file = File::from(file);
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = file
            .read(&mut buffer)
            .map_err(|error| attempt.error(Kind::Io).with_source(format!("cannot read {path:?}: {error}")))?;
        if read == 0 {
            break;
        }
        sender.content(buffer.get(..read).unwrap_or_default()).await?;
        account.moved(read);
    }
    sender.end_content().await?;
    account.file();
    Ok(())
}

/// A directory that is being read.
struct Level {
    path: String,
    directory: OwnedFd,
    entries: Dir,
}

impl Level {
    fn open(path: String, directory: OwnedFd) -> Result<Self, Errno> {
        Ok(Self { entries: Dir::read_from(&directory)?, path, directory })
    }

    fn next(&mut self) -> Result<Option<CString>, Errno> {
        for entry in self.entries.by_ref() {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                return Ok(Some(entry.file_name().to_owned()));
            }
        }
        Ok(None)
    }
}

async fn send_tree(
    directory: OwnedFd,
    sender: &mut Sender,
    account: &mut Account,
    attempt: &Attempt,
) -> Result<(), Failure> {
    sender.directory("").await?;
    account.transfer.directories += 1;
    let failed = |error| unreadable(attempt, error);
    let mut levels = vec![Level::open(String::new(), directory).map_err(failed)?];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.next().map_err(failed)? else {
            levels.pop();
            continue;
        };
        let path = format!("{}{}", level.path, name.to_string_lossy());
        let below = match open_entry(level.directory.as_fd(), &name) {
            Ok(below) => below,
            Err(reason) => {
                account.skip(path, reason);
                continue;
            }
        };
        match below {
            Source::File(file) => send_file(file, &path, sender, account, attempt).await?,
            Source::Directory(directory) => {
                if levels.len() > DEPTH_LIMIT {
                    return Err(attempt.error(Kind::Usage).with_source("the tree is too deep").into());
                }
                sender.directory(&path).await?;
                account.transfer.directories += 1;
                levels.push(Level::open(format!("{path}/"), directory).map_err(failed)?);
            }
            Source::Neither => account.skip(path, SkipReason::Special),
        }
    }
    Ok(())
}

fn open_entry(directory: impl AsFd, name: &CStr) -> Result<Source, SkipReason> {
    if !name.to_str().is_ok_and(is_plain) {
        return Err(SkipReason::Name);
    }
    // O_NONBLOCK: a pipe is opened without waiting for its other end, and then left out.
    let opened =
        openat(&directory, name, READ.union(OFlags::NOFOLLOW), Mode::empty()).map_err(|error| match error {
            Errno::LOOP => SkipReason::Symlink,
            Errno::NXIO => SkipReason::Special,
            Errno::NOENT => SkipReason::Gone,
            _ => SkipReason::Unreadable,
        })?;
    let kind = fstat(&opened).map_err(|_| SkipReason::Unreadable)?.st_mode;
    Ok(match FileType::from_raw_mode(kind) {
        FileType::RegularFile => Source::File(opened),
        FileType::Directory => Source::Directory(opened),
        _ => Source::Neither,
    })
}
