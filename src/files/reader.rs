//! A file of the session as a reader.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::{mpsc, oneshot};

use super::QUEUE;
use super::entry::{FileEntry, FileKind};
use super::failure::{Attempt, Failure};
use super::names::WorkPath;
use super::transfer::{refusal, thread};
use super::wire::{Heard, Receiver, Request, ask};
use crate::Error;
use crate::engine::Programs;
use crate::error::Kind;

/// A file of a session that is being read. Dropping it ends that.
///
/// An error of the reader holds the [`Error`] with its cause. The end of the file is seen only where all of it has come.
#[derive(Debug)]
pub struct FileReader {
    entry: FileEntry,
    attempt: Attempt,
    chunks: mpsc::Receiver<Result<Bytes, Error>>,
    current: Bytes,
    left: u64,
}

/// Opens a file of at most `limit` bytes.
pub(super) async fn open(
    programs: &Programs,
    attempt: Attempt,
    path: WorkPath,
    limit: u64,
) -> Result<FileReader, Error> {
    let (opened, entry) = oneshot::channel();
    let (sender, chunks) = mpsc::channel(QUEUE);
    let (run, runs) = (programs.clone(), attempt.clone());
    thread(programs, move || async move {
        let read = async {
            let (entry, mut receiver, _connection) = match begin(&run, &path, limit).await {
                Ok(begun) => begun,
                Err(failure) => return drop(opened.send(Err(runs.fail(failure)))),
            };
            let size = entry.size;
            if opened.send(Ok(entry)).is_ok()
                && let Err(failure) = pass_on(&mut receiver, size, &sender).await
            {
                let _ = sender.send(Err(runs.fail(failure))).await;
            }
        };
        tokio::select! {
            () = read => {}
            () = sender.closed() => {}
        }
    });
    let entry = entry.await.unwrap_or_else(|_| Err(attempt.error(Kind::Io).with_source("its thread has ended")))?;
    Ok(FileReader { left: entry.size, entry, attempt, chunks, current: Bytes::new() })
}

async fn begin(
    programs: &Programs,
    path: &WorkPath,
    limit: u64,
) -> Result<(FileEntry, Receiver, super::wire::Sender), Failure> {
    let (sender, mut receiver) = ask(programs, &Request::new("get", path).limits(1, limit)).await?;
    Ok((announced(&mut receiver, path, limit).await?, receiver, sender))
}

/// What is about to come.
pub(super) async fn announced(receiver: &mut Receiver, path: &WorkPath, limit: u64) -> Result<FileEntry, Failure> {
    let entry = match receiver.hear().await {
        Ok(Heard::Entry(told)) => told.entry(path)?,
        heard => return Err(refusal(heard)),
    };
    if entry.kind != FileKind::File || entry.size > limit || entry.path != path.to_string() {
        return Err(Failure::Broken("a file that was not asked for"));
    }
    Ok(entry)
}

/// Passes all of the file on, and no more.
pub(super) async fn pass_on(
    receiver: &mut Receiver,
    size: u64,
    chunks: &mpsc::Sender<Result<Bytes, Error>>,
) -> Result<(), Failure> {
    let mut left = size;
    while let Some(chunk) = receiver.content().await? {
        left = left.checked_sub(chunk.len() as u64).ok_or(Failure::Broken("more content than was announced"))?;
        if chunks.send(Ok(Bytes::copy_from_slice(chunk))).await.is_err() {
            return Ok(());
        }
    }
    if left > 0 {
        return Err(Failure::Broken("less content than was announced"));
    }
    match receiver.hear().await {
        Ok(Heard::Done) => Ok(()),
        heard => Err(refusal(heard)),
    }
}

impl FileReader {
    /// What was opened. Exactly its size can be read.
    #[must_use]
    pub fn entry(&self) -> &FileEntry {
        &self.entry
    }

    /// The next piece of the file; none at its end.
    ///
    /// # Errors
    ///
    /// The file was made shorter meanwhile, or the session has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        std::future::poll_fn(|context| self.poll_chunk(context)).await
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Error>> {
        if !self.current.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.current))));
        }
        Poll::Ready(match ready!(self.chunks.poll_recv(context)) {
            Some(Ok(chunk)) => {
                self.left = self.left.saturating_sub(chunk.len() as u64);
                Ok(Some(chunk))
            }
            Some(Err(error)) => Err(error),
            None if self.left == 0 => Ok(None),
            None => Err(self.attempt.error(Kind::Io).with_source("its thread has ended")),
        })
    }
}

impl AsyncRead for FileReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if let Some(mut chunk) = ready!(self.poll_chunk(context)).map_err(io::Error::other)? {
            let length = chunk.len().min(buffer.remaining());
            buffer.put_slice(chunk.get(..length).unwrap_or_default());
            chunk.advance(length);
            self.current = chunk;
        }
        Poll::Ready(Ok(()))
    }
}
