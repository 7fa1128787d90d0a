//! Files and directories of a session onto the host.

use std::fmt;
use std::fs::File;
use std::future::IntoFuture;
use std::io::{self, Write as _};
use std::path::PathBuf;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::Files;
use super::entry::FileKind;
use super::failure::{Attempt, Failure};
use super::host::Staging;
use super::names::{WorkPath, is_below, is_plain};
use super::transfer::{Account, Observer, Progress, SkipReason, Transfer, on_thread, refusal};
use super::wire::{Heard, Receiver, Request, Told, ask};
use crate::Error;
use crate::error::Kind;

const MAX_BYTES: u64 = 4 << 30;
const MAX_ENTRIES: u64 = 100_000;

/// A copy of a file or a directory of the session to the host; a future of what was moved.
///
/// # Errors
///
/// There is nothing, the destination exists or cannot be written, or a limit is exceeded. Nothing is left on the host then.
///
/// # Cancel safety
///
/// If the future is dropped, nothing is left on the host.
#[must_use = "a download does nothing unless awaited"]
pub struct Download {
    files: Files,
    path: String,
    destination: PathBuf,
    overwrite: bool,
    max_bytes: u64,
    max_entries: u64,
    observer: Option<Observer>,
}

impl Download {
    pub(super) fn new(files: Files, path: String, destination: PathBuf) -> Self {
        Self {
            files,
            path,
            destination,
            overwrite: false,
            max_bytes: MAX_BYTES,
            max_entries: MAX_ENTRIES,
            observer: None,
        }
    }

    /// Lets a file take the place of one that is there (default: it is an error). A symbolic link is replaced, not followed. A directory never
    /// takes the place of anything.
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// The most bytes to write to the host, of all files together (default 4 GiB).
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// The most entries that a directory may have, those that are left out included (default 100,000).
    pub fn max_entries(mut self, entries: u64) -> Self {
        self.max_entries = entries;
        self
    }

    /// Is told how far it is, on another thread: for every file, and several times for a large one. It is dropped when the transfer is over, also one that was
    /// given up, and what it had begun on the host is gone.
    pub fn progress(mut self, observer: impl FnMut(Progress) + Send + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("path", &self.path)
            .field("destination", &self.destination)
            .finish_non_exhaustive()
    }
}

impl IntoFuture for Download {
    type Output = Result<Transfer, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move {
            let text = format!("cannot get {:?} from the session as {}", self.path, self.destination.display());
            let attempt = Attempt::new(text, &self.files.handle);
            let path = WorkPath::parse(&self.path, &attempt)?;
            let Files { programs, .. } = self.files.clone();
            let runs = attempt.clone();
            let download = move || async move {
                let staging =
                    Staging::new(&self.destination, self.overwrite).map_err(|error| unusable(&runs, error))?;
                let request = Request::new("get", &path).tree(true).limits(self.max_entries, self.max_bytes);
                let receive = async {
                    let (_sender, receiver) = ask(&self.files.programs, &request).await?;
                    let receiving = Receiving {
                        receiver,
                        staging,
                        account: Account::new(self.observer),
                        entries: self.max_entries,
                        bytes: self.max_bytes,
                        attempt: &runs,
                    };
                    receiving.receive().await
                };
                receive.await.map_err(|failure| runs.fail(failure))
            };
            on_thread(&programs, &attempt, download).await
        }
        .boxed()
    }
}

/// The destination does not take it.
fn unusable(attempt: &Attempt, error: io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::IsADirectory => "name the file to write in it",
        io::ErrorKind::AlreadyExists => {
            "choose another name; a file, and no directory, can be overwritten: `overwrite`, `--force`"
        }
        io::ErrorKind::NotFound => "the directory that it is to be in must exist",
        _ => return attempt.error(Kind::Usage).with_source(error),
    };
    attempt.error(Kind::Usage).with_source(error).with_hint(hint)
}

/// A download under way, and what it may still take.
pub(super) struct Receiving<'a> {
    pub(super) receiver: Receiver,
    pub(super) staging: Staging,
    pub(super) account: Account,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) attempt: &'a Attempt,
}

impl Receiving<'_> {
    pub(super) async fn receive(mut self) -> Result<Transfer, Failure> {
        self.all().await?;
        // Where there was always something to read, this is the first chance to see that nobody waits any more.
        tokio::task::yield_now().await;
        self.staging.commit().map_err(|error| unusable(self.attempt, error))?;
        Ok(self.account.transfer)
    }

    async fn all(&mut self) -> Result<(), Failure> {
        match self.receiver.hear().await {
            Ok(Heard::Entry(told)) if told.path.is_empty() => match told.kind() {
                FileKind::File => {
                    self.count(told.size)?;
                    self.account.expect(told.size);
                    let file = self.staging.file(told.mode & 0o100 != 0).map_err(|error| self.unusable(error))?;
                    self.content(file, told.size).await?;
                    return match self.receiver.hear().await {
                        Ok(Heard::Done) => Ok(()),
                        heard => Err(refusal(heard)),
                    };
                }
                FileKind::Directory => {
                    self.staging.tree().map_err(|error| self.unusable(error))?;
                    self.account.transfer.directories += 1;
                }
                FileKind::Symlink | FileKind::Other => return Err(Failure::Broken("an entry that cannot be taken")),
            },
            heard => return Err(refusal(heard)),
        }
        loop {
            match self.receiver.hear().await {
                Ok(Heard::Entry(told)) => self.entry(told).await?,
                Ok(Heard::Skipped { path, reason }) => {
                    self.count(0)?;
                    self.account.skip(path, skip_reason(&reason)?);
                }
                Ok(Heard::Done) => return Ok(()),
                heard => return Err(refusal(heard)),
            }
        }
    }

    /// One entry of a tree. The honest bridge sends none that is refused here.
    async fn entry(&mut self, told: Told) -> Result<(), Failure> {
        self.count(told.size)?;
        if !is_below(&told.path) || !told.path.split('/').all(is_plain) {
            return Err(Failure::Broken("a path that no file of the host may have"));
        }
        match told.kind() {
            FileKind::Directory => {
                self.staging.directory_in_tree(&told.path).map_err(|error| self.unusable(error))?;
                self.account.transfer.directories += 1;
                Ok(())
            }
            FileKind::File => {
                let executable = told.mode & 0o100 != 0;
                let file = self.staging.file_in_tree(&told.path, executable).map_err(|error| self.unusable(error))?;
                self.content(file, told.size).await
            }
            FileKind::Symlink | FileKind::Other => Err(Failure::Broken("an entry that cannot be taken")),
        }
    }

    fn count(&mut self, size: u64) -> Result<(), Failure> {
        let refused = |code: &str| Failure::Refused { code: code.to_owned(), text: String::new() };
        self.entries = self.entries.checked_sub(1).ok_or_else(|| refused("many"))?;
        self.bytes = self.bytes.checked_sub(size).ok_or_else(|| refused("large"))?;
        Ok(())
    }

    async fn content(&mut self, mut file: File, size: u64) -> Result<(), Failure> {
        let mut left = size;
        while let Some(chunk) = self.receiver.content().await? {
            left = left.checked_sub(chunk.len() as u64).ok_or(Failure::Broken("more content than was announced"))?;
            file.write_all(chunk).map_err(|error| self.attempt.error(Kind::Io).with_source(error))?;
            self.account.moved(chunk.len());
        }
        if left > 0 {
            return Err(Failure::Broken("less content than was announced"));
        }
        self.account.file();
        Ok(())
    }

    fn unusable(&self, error: io::Error) -> Failure {
        unusable(self.attempt, error).into()
    }
}

fn skip_reason(word: &str) -> Result<SkipReason, Failure> {
    Ok(match word {
        "symlink" => SkipReason::Symlink,
        "other" => SkipReason::Special,
        "name" => SkipReason::Name,
        "unreadable" => SkipReason::Unreadable,
        "missing" => SkipReason::Gone,
        _ => return Err(Failure::Broken("a reason that is none")),
    })
}
