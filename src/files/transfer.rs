//! Where operations run, and what transfers tell of themselves.

use tokio::sync::oneshot;
use tracing::Instrument;

use super::Files;
use super::failure::{Attempt, Failure};
use super::names::WorkPath;
use super::wire::{Heard, Receiver, Request, Sender, ask};
use crate::Error;
use crate::engine::{ExecEnd, Programs};
use crate::error::Kind;

/// How far a transfer has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Whole files so far.
    pub files: u64,
    /// Bytes of files so far.
    pub bytes: u64,
    /// Bytes of all files, where that is known: of a single file.
    pub total: Option<u64>,
}

/// What a transfer has moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transfer {
    /// Files.
    pub files: u64,
    /// Directories, the outermost included.
    pub directories: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// What was left out, and why: the first thousand.
    pub skipped: Vec<Skipped>,
    /// How many were left out.
    pub skipped_total: u64,
}

/// Something in a tree that was not transferred.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Relative to the tree. What is not UTF-8 in it is shown as U+FFFD. It may hold escape sequences.
    pub path: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why something in a tree was not transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkipReason {
    /// Symbolic links are neither followed nor made.
    #[error("a symbolic link")]
    Symlink,
    /// A pipe, a socket or a device.
    #[error("no regular file")]
    Special,
    /// The name is not UTF-8, has control characters in it, or is too long. A directory is left out with all that is in it.
    #[error("a name that is not UTF-8 or has control characters")]
    Name,
    /// Its permissions do not let it be read.
    #[error("unreadable")]
    Unreadable,
    /// It went while the tree was read.
    #[error("gone")]
    Gone,
}

const SKIPPED_KEPT: usize = 1000;

/// Tells a caller how far a transfer is, and counts for the result.
pub(super) struct Account {
    pub(super) transfer: Transfer,
    total: Option<u64>,
    observer: Option<Observer>,
}

pub(super) type Observer = Box<dyn FnMut(Progress) + Send>;

impl Account {
    pub(super) fn new(observer: Option<Observer>) -> Self {
        Self { transfer: Transfer::default(), total: None, observer }
    }

    pub(super) fn expect(&mut self, total: u64) {
        self.total = Some(total);
        self.tell();
    }

    pub(super) fn moved(&mut self, bytes: usize) {
        self.transfer.bytes += bytes as u64;
        self.tell();
    }

    pub(super) fn file(&mut self) {
        self.transfer.files += 1;
        self.tell();
    }

    pub(super) fn skip(&mut self, path: String, reason: SkipReason) {
        self.transfer.skipped_total += 1;
        if self.transfer.skipped.len() < SKIPPED_KEPT {
            self.transfer.skipped.push(Skipped { path, reason });
        }
    }

    fn tell(&mut self) {
        if let Some(observer) = &mut self.observer {
            observer(Progress { files: self.transfer.files, bytes: self.transfer.bytes, total: self.total });
        }
    }
}

/// Runs an operation on a thread of its own, where it may wait for the host's disk, and ends it when the caller's future is dropped.
pub(super) async fn on_thread<T, F>(
    programs: &Programs,
    attempt: &Attempt,
    operation: impl FnOnce() -> F + Send + 'static,
) -> Result<T, Error>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>>,
{
    let (mut sender, receiver) = oneshot::channel();
    thread(programs, move || async move {
        let result = tokio::select! {
            biased;
            // First: an operation that always has something to read uses up what a turn allows, and nothing is left to see this with.
            () = sender.closed() => return,
            result = operation() => result,
        };
        let _ = sender.send(result);
    });
    receiver.await.unwrap_or_else(|_| Err(attempt.error(Kind::Io).with_source("its thread has ended")))
}

/// Runs a future on a thread of its own.
pub(super) fn thread<F: Future<Output = ()>>(programs: &Programs, run: impl FnOnce() -> F + Send + 'static) {
    let (runtime, span) = (programs.runtime().clone(), tracing::Span::current());
    programs.runtime().spawn_blocking(move || runtime.block_on(run().instrument(span)));
}

/// Puts something of this size, if that is known, in the place of this path.
pub(super) async fn put<T>(
    files: &Files,
    path: &WorkPath,
    size: Option<u64>,
    attempt: &Attempt,
    upload: impl AsyncFnOnce(&mut Sender) -> Result<T, Failure>,
) -> Result<T, Error> {
    let temporary = files.unfinished.begin(path);
    let asked = ask(&files.programs, &Request::put(path, &temporary, size)).await;
    let (sender, receiver) = asked.map_err(|failure| attempt.fail(failure))?;
    let sent = send(sender, receiver, upload).await;
    // Of all else the bridge, or what it left, may still be there.
    if matches!(sent, Ok(_) | Err(Sending::Before(Failure::Refused { .. }) | Sending::Answer(Failure::Refused { .. })))
    {
        files.unfinished.end(&temporary);
    }
    sent.map_err(|failed| failed.explain(attempt))
}

/// Sends an upload, and waits for the bridge to say that all of it is in its place. A refusal is heard while there is more to send.
pub(super) async fn send<T>(
    mut sender: Sender,
    mut receiver: Receiver,
    upload: impl AsyncFnOnce(&mut Sender) -> Result<T, Failure>,
) -> Result<T, Sending> {
    receiver.wait_for_ever();
    let sent = {
        let mut answer = std::pin::pin!(receiver.hear());
        tokio::select! {
            biased;
            heard = &mut answer => Err(refusal(heard)),
            sent = upload(&mut sender) => sent,
        }
    };
    receiver.expect();
    match sent {
        Ok(value) => {
            // Where the container always kept up, this is the first chance to see that nobody waits any more.
            tokio::task::yield_now().await;
            match sender.end().await {
                Ok(()) | Err(Failure::Io(_)) => match receiver.hear().await {
                    Ok(Heard::Done) => Ok(value),
                    heard => Err(Sending::Answer(refusal(heard))),
                },
                Err(failure) => Err(Sending::Before(failure)),
            }
        }
        // The bridge may have closed its stdin over what it is about to say.
        Err(failure @ Failure::Io(_)) => match receiver.hear().await {
            Ok(Heard::Refused { code, text }) => Err(Sending::Before(Failure::Refused { code, text })),
            Err(ended @ Failure::Ended(Some(ExecEnd { code: Some(_), .. }))) => Err(Sending::Before(ended)),
            _ => Err(Sending::Before(failure)),
        },
        Err(failure) => {
            if matches!(failure, Failure::Own(_) | Failure::Abandoned) {
                // So that nothing of it is left when the caller hears of it.
                sender.give_up().await;
                receiver.drain().await;
            }
            Err(Sending::Before(failure))
        }
    }
}

/// When an upload failed.
pub(super) enum Sending {
    /// Nothing has been put in its place.
    Before(Failure),
    /// All was sent.
    Answer(Failure),
}

impl Sending {
    fn explain(self, attempt: &Attempt) -> Error {
        match self {
            Self::Before(failure) => attempt.fail(failure),
            Self::Answer(failure) => attempt.fail_unknown(failure),
        }
    }
}

/// What anything but the expected answer means.
pub(super) fn refusal(heard: Result<Heard, Failure>) -> Failure {
    match heard {
        Ok(Heard::Refused { code, text }) => Failure::Refused { code, text },
        Ok(_) => Failure::Broken("an answer that does not fit"),
        Err(failure) => failure,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::sleep;

    use super::super::wire::converse;
    use super::*;
    use crate::engine::Exec;

    const DONE: &[u8] = b"\0\0\0\0\0\x0f{\"type\":\"done\"}";

    fn conversation() -> ((Sender, Receiver), DuplexStream, DuplexStream) {
        let (stdin, theirs_in) = duplex(1024);
        let (theirs_out, stdout) = duplex(1024);
        (converse(Exec::new(stdin, stdout, std::future::pending())), theirs_in, theirs_out)
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_takes_its_time_is_no_stall_of_the_container() {
        let ((sender, receiver), mut stdin, mut stdout) = conversation();
        tokio::spawn(async move {
            let mut seen = Vec::new();
            while !String::from_utf8_lossy(&seen).contains(r#""type":"end""#) {
                seen.push(stdin.read_u8().await.unwrap());
            }
            stdout.write_all(DONE).await.unwrap();
        });
        let upload = async |sender: &mut Sender| {
            sender.file("", false).await?;
            sleep(Duration::from_secs(24 * 3600)).await;
            sender.end_content().await
        };
        assert!(send(sender, receiver, upload).await.is_ok());
    }

    #[tokio::test]
    async fn what_was_dropped_before_its_end_is_not_ended_though_it_never_had_to_wait() {
        let ((sender, receiver), mut stdin, _stdout) = conversation();
        let (leave, left) = oneshot::channel();
        let upload = async |sender: &mut Sender| {
            sender.file("", false).await?;
            leave.send(()).unwrap();
            sender.end_content().await
        };
        tokio::select! {
            biased;
            _ = left => {}
            _ = send(sender, receiver, upload) => panic!("nobody has answered"),
        }
        let mut sent = String::new();
        stdin.read_to_string(&mut sent).await.unwrap();
        assert!(sent.contains(r#""type":"entry""#) && !sent.contains(r#""type":"end""#), "{sent:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_container_that_does_not_move_is_given_up() {
        let ((sender, receiver), _stdin, _stdout) = conversation();
        let full = async |sender: &mut Sender| sender.content(&[0; 4096]).await;
        assert!(matches!(send(sender, receiver, full).await, Err(Sending::Before(Failure::Stalled(_)))));

        let ((sender, receiver), _stdin, _stdout) = conversation();
        let all = async |_: &mut Sender| Ok(());
        assert!(matches!(send(sender, receiver, all).await, Err(Sending::Answer(Failure::Stalled(_)))));
    }
}
