//! Files in and out of a session's work directory, through `bridge files` in the container.

mod download;
mod entry;
mod failure;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod host;
mod names;
mod reader;
mod transfer;
mod unfinished;
mod upload;
mod wire;

use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;

pub use download::Download;
pub use entry::{FileEntry, FileKind};
pub use reader::FileReader;
pub use transfer::{Progress, SkipReason, Skipped, Transfer};
pub(crate) use unfinished::Unfinished;
pub use upload::Upload;

use self::failure::{Attempt, Failure};
use self::names::WorkPath;
use self::transfer::{on_thread, refusal};
use self::wire::{CHUNK, Heard, Receiver, Request, ask};
use crate::Error;
use crate::engine::Programs;
use crate::error::Kind;
use crate::kernel::Handle;

/// The largest file that [`Files::get`] takes into memory.
const GET_LIMIT: u64 = 64 << 20;
/// The most entries that a listing has.
const LIST_LIMIT: u64 = 100_000;
/// The most bytes that their paths have together.
const LIST_BYTES: usize = 64 << 20;
/// Pieces of a file on their way between the caller and the connection.
const QUEUE: usize = 4;

/// The files of a session's work directory. A cheap handle, which keeps the session as the [`Session`](crate::Session) does.
///
/// Paths are relative to the work directory, or begin with `/mnt/data/` or `/workspace/`; `..` is refused. They are resolved in the container,
/// as its user, and no symbolic link is followed: one that a path leads through is refused, a file that is put takes the place of a link, and a removal
/// removes the link itself. Operations run beside cells and do not wait for them.
///
/// What is put appears whole or not at all: it has a temporary name, which begins with `.cellblock-`, until all of it is there. Directories that are
/// made on the way to it go again if it fails, and stay, empty, where the container is killed meanwhile and the work directory outlives it.
///
/// # Errors
///
/// Of every operation: [`Error::is_usage`] if the path cannot be used so, [`Error::is_no_such_file`] if there is nothing, [`Error::is_session_gone`].
/// [`Error::ran`] says for those that change something whether it may have been done.
///
/// # Cancel safety
///
/// A dropped future ends its operation. What was being put is not there, or all of it is, if it had just been done; of a tree that was being removed a part may be.
#[derive(Debug, Clone)]
pub struct Files {
    handle: Handle,
    programs: Programs,
    unfinished: Unfinished,
}

impl Files {
    pub(crate) fn new(handle: Handle, programs: Programs, unfinished: Unfinished) -> Self {
        Self { handle, programs, unfinished }
    }

    /// Writes a file, in the place of one that is there; missing directories are made.
    ///
    /// # Errors
    ///
    /// There is a directory of that name, or no space is left.
    pub async fn put(&self, path: &str, content: impl Into<Bytes>) -> Result<(), Error> {
        let (attempt, path) = self.attempt_change("put", path)?;
        let (files, content, runs) = (self.clone(), content.into(), attempt.clone());
        let put = move || async move {
            let upload = async |sender: &mut wire::Sender| {
                sender.file("", false).await?;
                sender.content(&content).await?;
                sender.end_content().await
            };
            transfer::put(&files, &path, Some(content.len() as u64), &runs, upload).await
        };
        on_thread(&self.programs, &attempt, put).await
    }

    /// Writes what a reader gives into a file, as [`put`](Self::put). If a size is given and the reader gives more or less, it fails.
    ///
    /// # Errors
    ///
    /// As for [`put`](Self::put), or the reader fails.
    pub async fn put_reader(&self, path: &str, reader: impl AsyncRead, size: Option<u64>) -> Result<(), Error> {
        let (attempt, path) = self.attempt_change("put", path)?;
        let (chunks, mut source) = mpsc::channel::<Option<Bytes>>(QUEUE);
        let (files, runs) = (self.clone(), attempt.clone());
        let put = move || async move {
            let upload = async |sender: &mut wire::Sender| {
                sender.file("", false).await?;
                while let Some(chunk) = source.recv().await.ok_or(Failure::Abandoned)? {
                    sender.content(&chunk).await?;
                }
                sender.end_content().await
            };
            transfer::put(&files, &path, size, &runs, upload).await
        };
        let mut put = std::pin::pin!(on_thread(&self.programs, &attempt, put));
        let fed = tokio::select! {
            ended = &mut put => return ended,
            fed = feed(reader, size, chunks) => fed,
        };
        // Whatever came of it, nothing of it goes on after this.
        let ended = put.await;
        fed.map_err(|error| attempt.error(Kind::Io).with_source(error))?;
        ended
    }

    /// Reads a file of at most 64 MiB into memory; [`open`](Self::open) reads larger ones.
    ///
    /// # Errors
    ///
    /// It is larger, or no regular file.
    pub async fn get(&self, path: &str) -> Result<Bytes, Error> {
        let (attempt, path) = self.attempt("get", path)?;
        let mut reader = reader::open(&self.programs, attempt, path, GET_LIMIT).await?;
        let mut content = BytesMut::new();
        while let Some(chunk) = reader.chunk().await? {
            content.extend_from_slice(&chunk);
        }
        Ok(content.freeze())
    }

    /// Opens a file to be read, whatever its size. It is read as it is at that moment: what is appended later does not come.
    ///
    /// # Errors
    ///
    /// It is no regular file.
    pub async fn open(&self, path: &str) -> Result<FileReader, Error> {
        let (attempt, path) = self.attempt("get", path)?;
        reader::open(&self.programs, attempt, path, u64::MAX >> 1).await
    }

    /// Looks at a file, a directory or a symbolic link.
    ///
    /// # Errors
    ///
    /// There is nothing of that name.
    pub async fn stat(&self, path: &str) -> Result<FileEntry, Error> {
        let (attempt, path) = self.attempt("look at", path)?;
        let (programs, runs) = (self.programs.clone(), attempt.clone());
        let stat = move || async move {
            let stat = async {
                let (_sender, mut receiver) = ask(&programs, &Request::new("stat", &path)).await?;
                match receiver.hear().await {
                    Ok(Heard::Entry(told)) => told.entry(&path),
                    heard => Err(refusal(heard)),
                }
            };
            stat.await.map_err(|failure| runs.fail(failure))
        };
        on_thread(&self.programs, &attempt, stat).await
    }

    /// Lists what is in a directory, by name; of anything else the thing itself. `.` is the work directory.
    ///
    /// # Errors
    ///
    /// There are more than 100,000 entries.
    pub async fn list(&self, path: &str) -> Result<Vec<FileEntry>, Error> {
        self.listing(path, false).await
    }

    /// Lists what is in a directory and in those below it.
    ///
    /// # Errors
    ///
    /// There are more than 100,000 entries, or 64 MiB of their paths, or more than 64 directories in each other.
    pub async fn list_tree(&self, path: &str) -> Result<Vec<FileEntry>, Error> {
        self.listing(path, true).await
    }

    async fn listing(&self, path: &str, tree: bool) -> Result<Vec<FileEntry>, Error> {
        let (attempt, path) = self.attempt("list", path)?;
        let (programs, runs) = (self.programs.clone(), attempt.clone());
        let list = move || async move {
            let list = async {
                let request = Request::new("list", &path).tree(tree).limits(LIST_LIMIT, 0);
                let (_sender, mut receiver) = ask(&programs, &request).await?;
                entries(&mut receiver, &path).await
            };
            list.await.map_err(|failure| runs.fail(failure))
        };
        on_thread(&self.programs, &attempt, list).await
    }

    /// Removes a file or a symbolic link.
    ///
    /// # Errors
    ///
    /// It is a directory.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        self.removal(path, false).await
    }

    /// Removes a file, or a directory with all that is in it.
    ///
    /// # Errors
    ///
    /// It is the work directory itself.
    pub async fn remove_tree(&self, path: &str) -> Result<(), Error> {
        self.removal(path, true).await
    }

    async fn removal(&self, path: &str, tree: bool) -> Result<(), Error> {
        let (attempt, path) = self.attempt_change("remove", path)?;
        let (programs, runs) = (self.programs.clone(), attempt.clone());
        let remove = move || async move {
            let request = Request::new("remove", &path).tree(tree);
            let (_sender, mut receiver) = ask(&programs, &request).await.map_err(|failure| runs.fail(failure))?;
            match receiver.hear().await {
                Ok(Heard::Done) => Ok(()),
                Ok(Heard::Refused { code, text }) if code == "directory" => {
                    let error = runs.fail(Failure::Refused { code, text });
                    Err(error.with_hint("`remove_tree`, or `rm --recursive`, removes it with all that is in it"))
                }
                heard => Err(runs.fail_unknown(refusal(heard))),
            }
        };
        on_thread(&self.programs, &attempt, remove).await
    }

    /// Copies a file or a directory of the host into the session; a future of what was moved.
    ///
    /// A file takes the place of one that is there; a directory must find nothing, or an empty directory. In a directory of the host symbolic links,
    /// pipes, sockets, devices, and names that are not UTF-8 or have control characters are left out, and told of.
    pub fn upload(&self, host_path: impl Into<PathBuf>, path: impl Into<String>) -> Upload {
        Upload::new(self.clone(), host_path.into(), path.into())
    }

    /// Copies a file or a directory of the session to the host; a future of what was moved.
    ///
    /// Nothing is written outside of `host_path`, which must not exist, and nothing of it is there before all is. In a directory symbolic links, pipes,
    /// sockets, devices, and names that are not UTF-8 or have control characters are left out, and told of; of hard links each becomes a file, and sparse files are
    /// written, and counted, in full. Files are executable or not; no other permissions are taken over.
    pub fn download(&self, path: impl Into<String>, host_path: impl Into<PathBuf>) -> Download {
        Download::new(self.clone(), path.into(), host_path.into())
    }

    fn attempt(&self, verb: &str, path: &str) -> Result<(Attempt, WorkPath), Error> {
        let attempt = Attempt::new(format!("cannot {verb} {path:?} in the session"), &self.handle);
        let path = WorkPath::parse(path, &attempt)?;
        Ok((attempt, path))
    }

    /// An attempt that changes what is at the path.
    fn attempt_change(&self, verb: &str, path: &str) -> Result<(Attempt, WorkPath), Error> {
        let (attempt, path) = self.attempt(verb, path)?;
        path.check_change(&attempt)?;
        Ok((attempt, path))
    }
}

/// The answer to `list`.
async fn entries(receiver: &mut Receiver, path: &WorkPath) -> Result<Vec<FileEntry>, Failure> {
    let mut entries = Vec::new();
    let mut room = LIST_BYTES;
    loop {
        match receiver.hear().await {
            Ok(Heard::Entry(told)) if (entries.len() as u64) < LIST_LIMIT => {
                let entry = told.entry(path)?;
                room = room.checked_sub(entry.path.len()).ok_or_else(Failure::many)?;
                entries.push(entry);
            }
            Ok(Heard::Done) => break,
            heard => return Err(refusal(heard)),
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// Reads in the caller's own task. The end of `chunks` without a last `None` means that the rest never comes.
async fn feed(reader: impl AsyncRead, size: Option<u64>, chunks: mpsc::Sender<Option<Bytes>>) -> std::io::Result<()> {
    let mut reader = std::pin::pin!(reader);
    let mut total = 0;
    loop {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        let read = reader.read_buf(&mut chunk).await?;
        total += read as u64;
        let wrong = size.is_some_and(|size| if read == 0 { total < size } else { total > size });
        if wrong {
            return Err(std::io::Error::other(format!(
                "there are not the {} bytes that were announced",
                size.unwrap_or_default()
            )));
        }
        let chunk = (read > 0).then(|| chunk.freeze());
        let last = chunk.is_none();
        // If nobody takes it, the other side knows why.
        if chunks.send(chunk).await.is_err() || last {
            return Ok(());
        }
    }
}
