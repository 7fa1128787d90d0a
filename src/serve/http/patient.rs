//! A connection whose other end has to read.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::unread::Unread;

/// Fails once nothing could be written for some time: what is written for a client that has stopped reading holds a session.
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Since a write had to wait, or since the end of ours.
    waiting: Option<Pin<Box<Sleep>>>,
    unread: Unread,
    is_shut: bool,
}

impl<S: AsyncWrite + Unpin> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration, unread: Unread) -> Self {
        Self { stream, patience, waiting: None, unread, is_shut: false }
    }

    fn write<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(self.patience)));
        waiting.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(context, |stream, context| stream.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(context, AsyncWrite::poll_flush)
    }

    /// A connection that is closed before all is read that came in is reset, and the answer may go with it: what a client still sends of a body that
    /// nobody reads is thrown away first.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut {
            ready!(self.write(context, AsyncWrite::poll_shutdown))?;
            self.is_shut = true;
        }
        if !self.unread.is_left() {
            return Poll::Ready(Ok(()));
        }
        let patience = self.patience;
        let mut room = [MaybeUninit::uninit(); 16 << 10];
        loop {
            if self.waiting.get_or_insert_with(|| Box::pin(sleep(patience))).as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut rest = ReadBuf::uninit(&mut room);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut rest))?;
            if rest.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_reading_is_cut_off() {
        let (ours, _theirs) = duplex(16);
        let error = Patient::new(ours, PATIENCE, Unread::default()).write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_is_not() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = Patient::new(ours, PATIENCE, Unread::default());
        let read = async {
            for _ in 0..4 {
                sleep(PATIENCE / 2).await;
                theirs.read_exact(&mut [0; 16]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[0; 64]), read);
        written.unwrap();
    }
}
