//! Lines of stdin for `input()` and `getpass()`.
//!
//! A read of the terminal cannot be taken back once it has begun, and would eat what is typed at the next prompt. So a thread waits
//! until a line is there or the cell no longer wants one, and only then reads.

use std::io::{self, IsTerminal as _, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use tokio::sync::oneshot;

use super::terminal_mode::TerminalMode;

/// A longer line comes in pieces.
const MAX_LINE: usize = 1 << 20;

/// Reads stdin line by line on a thread of its own.
#[derive(Debug)]
pub(crate) struct Input {
    asks: mpsc::Sender<Ask>,
    wake: Arc<PipeWriter>,
}

struct Ask {
    password: bool,
    cancelled: Arc<AtomicBool>,
    answer: oneshot::Sender<Option<String>>,
}

/// A line that was asked for.
#[derive(Debug)]
pub(crate) struct Reading {
    answer: oneshot::Receiver<Option<String>>,
    cancelled: Arc<AtomicBool>,
    wake: Arc<PipeWriter>,
}

impl Input {
    pub(crate) fn start() -> io::Result<Self> {
        let (woken, wake) = io::pipe()?;
        let (asks, asked) = mpsc::channel();
        let reader = Reader { woken, pending: Vec::new() };
        thread::Builder::new().name("stdin".into()).spawn(move || reader.serve(&asked))?;
        Ok(Self { asks, wake: Arc::new(wake) })
    }

    pub(crate) fn is_terminal(&self) -> bool {
        io::stdin().is_terminal()
    }

    /// Asks for a line; a password is not shown as it is typed.
    pub(crate) fn ask(&self, password: bool) -> Reading {
        let (answer, receiver) = oneshot::channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        // A thread that has ended drops the answer, which reads as the end of file.
        let _ = self.asks.send(Ask { password, cancelled: Arc::clone(&cancelled), answer });
        Reading { answer: receiver, cancelled, wake: Arc::clone(&self.wake) }
    }
}

impl Reading {
    /// The line without its end, or none at the end of file.
    pub(crate) async fn line(&mut self) -> Option<String> {
        (&mut self.answer).await.ok().flatten()
    }

    /// Gives up, and returns once the terminal is as it was. A line that came meanwhile is lost.
    pub(crate) async fn cancel(mut self) {
        self.give_up();
        let _ = (&mut self.answer).await;
    }

    fn give_up(&self) {
        self.cancelled.store(true, Ordering::Release);
        let _ = self.wake.as_ref().write_all(b"!");
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if !self.answer.is_terminated() {
            self.give_up();
        }
    }
}

struct Reader {
    woken: PipeReader,
    /// What was read and not yet asked for: a pipe may give several lines at once.
    pending: Vec<u8>,
}

impl Reader {
    fn serve(mut self, asks: &mpsc::Receiver<Ask>) {
        while let Ok(ask) = asks.recv() {
            let line = {
                let _asking = TerminalMode::asking(ask.password);
                self.line(&ask.cancelled).unwrap_or_default()
            };
            let _ = ask.answer.send(line);
        }
    }

    fn line(&mut self, cancelled: &AtomicBool) -> io::Result<Option<String>> {
        let stdin = io::stdin();
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.pending.drain(..=end).collect();
                line.pop();
                return Ok(Some(text(line)));
            }
            if self.pending.len() >= MAX_LINE {
                return Ok(Some(text(std::mem::take(&mut self.pending))));
            }
            if !self.wait(stdin.as_fd(), cancelled)? {
                return Ok(None);
            }
            // Below the buffer of `std::io::Stdin`, which cannot be asked whether it would block.
            let mut buffer = [0; 4096];
            let length = match read(&stdin, &mut buffer) {
                Err(Errno::INTR | Errno::AGAIN) => continue,
                read => read?,
            };
            if length == 0 {
                let rest = std::mem::take(&mut self.pending);
                return Ok((!rest.is_empty()).then(|| text(rest)));
            }
            self.pending.extend(buffer.iter().take(length));
        }
    }

    /// Waits until stdin has something, or its end; false if nobody wants it any more.
    fn wait(&mut self, stdin: BorrowedFd<'_>, cancelled: &AtomicBool) -> io::Result<bool> {
        loop {
            let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
            match poll(&mut fds, None) {
                Err(Errno::INTR) => continue,
                polled => polled?,
            };
            let [ready, woken] = fds.map(|fd| !fd.revents().is_empty());
            if woken {
                // A wake-up may be left from a line that came just before it was no longer wanted.
                let _ = self.woken.read(&mut [0; 16])?;
            }
            if cancelled.load(Ordering::Acquire) {
                return Ok(false);
            }
            if ready {
                return Ok(true);
            }
        }
    }
}

fn text(mut line: Vec<u8>) -> String {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
