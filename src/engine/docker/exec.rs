//! Programs that run in a container, on one hijacked connection each.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error as ClientError;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bytes::{Buf as _, Bytes};
use futures_util::future::FutureExt as _;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::oneshot;

use super::Docker;
use super::failure::{failed, is_status, message};
use crate::Error;
use crate::engine::{ContainerId, Exec, ExecEnd};
use crate::error::Kind;

/// How much of the end of stderr is kept.
const STDERR_KEPT: usize = 64 * 1024;

/// The read buffer. The engine sends chunks of at most 32 KiB.
const READ_BUFFER: usize = 128 * 1024;

/// How long the engine may take to notice the end of a program whose output has ended.
const EXIT_CODE_TIMEOUT: Duration = Duration::from_secs(5);

impl Docker {
    pub(super) async fn exec_in_container(&self, id: &ContainerId, argv: &[&str]) -> Result<Exec, Error> {
        let attempted = || format!("cannot run {} in container {id}", argv.first().unwrap_or(&"nothing"));
        let failed = |error| {
            let paused = message(&error).is_some_and(|text| text.contains("paused"));
            let gone = is_status(&error, 404) || (is_status(&error, 409) && !paused);
            failed(if gone { Kind::Gone } else { Kind::Engine }, attempted(), error)
        };
        let options = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(argv.to_vec()),
            ..CreateExecOptions::default()
        };
        let exec = self.client.create_exec(&id.0, options).await.map_err(failed)?.id;
        let options = StartExecOptions { output_capacity: Some(READ_BUFFER), ..StartExecOptions::default() };
        let started = self.client.start_exec(&exec, Some(options)).await.map_err(failed)?;
        let StartExecResults::Attached { output, input } = started else {
            return Err(Error::new(Kind::Engine, attempted()));
        };
        let stderr = Arc::new(Mutex::new(Tail::default()));
        let (ended, wait_ended) = oneshot::channel();
        let stdout = Stdout { output, chunk: Bytes::new(), stderr: Arc::clone(&stderr), ended: Some(ended) };
        let docker = self.clone();
        let end = async move {
            // An error means that stdout was dropped unread: the connection is closed, and the program may go on.
            let _ = wait_ended.await;
            let code = docker.exit_code_of_exec(&exec).await?;
            let stderr = std::mem::take(&mut *stderr.lock().unwrap_or_else(PoisonError::into_inner));
            Ok(ExecEnd { code, stderr: stderr.into_vec() })
        };
        Ok(Exec { stdin: Box::new(input), stdout: Box::new(stdout), end: end.boxed() })
    }

    async fn exit_code_of_exec(&self, exec: &str) -> Result<Option<i64>, Error> {
        let attempted = "cannot read the exit code of a program in a container";
        let deadline = tokio::time::Instant::now() + EXIT_CODE_TIMEOUT;
        let mut pause = Duration::from_millis(1);
        loop {
            match self.client.inspect_exec(exec).await {
                Ok(inspected) if inspected.running != Some(true) => return Ok(inspected.exit_code),
                Ok(_) if tokio::time::Instant::now() >= deadline => return Ok(None),
                Ok(_) => {}
                // The container is gone, and the engine's memory of its programs with it.
                Err(error) if is_status(&error, 404) || is_status(&error, 409) => return Ok(None),
                Err(error) => return Err(failed(Kind::Engine, attempted, error)),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}

/// The program's stdout, taken out of the connection on which stderr comes too.
struct Stdout {
    output: BoxStream<'static, Result<LogOutput, ClientError>>,
    chunk: Bytes,
    stderr: Arc<Mutex<Tail>>,
    ended: Option<oneshot::Sender<()>>,
}

impl Stdout {
    fn finish(&mut self) {
        if let Some(ended) = self.ended.take() {
            let _ = ended.send(());
        }
    }
}

impl AsyncRead for Stdout {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            if !this.chunk.is_empty() {
                let length = this.chunk.len().min(buffer.remaining());
                buffer.put_slice(this.chunk.get(..length).unwrap_or_default());
                this.chunk.advance(length);
                return Poll::Ready(Ok(()));
            }
            if this.ended.is_none() {
                return Poll::Ready(Ok(()));
            }
            match ready!(this.output.as_mut().poll_next(cx)) {
                Some(Ok(LogOutput::StdOut { message })) => this.chunk = message,
                // What has no header of its own comes from the engine, not from the program.
                Some(Ok(LogOutput::StdErr { message } | LogOutput::Console { message })) => {
                    this.stderr.lock().unwrap_or_else(PoisonError::into_inner).push(&message);
                }
                Some(Ok(LogOutput::StdIn { .. })) => {}
                Some(Err(error)) => {
                    this.finish();
                    return Poll::Ready(Err(io::Error::other(error)));
                }
                None => {
                    this.finish();
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

/// The last bytes of a stream.
#[derive(Default)]
struct Tail(VecDeque<u8>);

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(bytes.len().saturating_sub(STDERR_KEPT)..).unwrap_or_default();
        let excess = (self.0.len() + bytes.len()).saturating_sub(STDERR_KEPT);
        self.0.drain(..excess);
        self.0.extend(bytes);
    }

    fn into_vec(self) -> Vec<u8> {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_keeps_the_last_bytes() {
        let mut tail = Tail::default();
        tail.push(b"lost");
        tail.push(&vec![b'x'; STDERR_KEPT - 2]);
        tail.push(b"end");
        let kept = tail.into_vec();
        assert_eq!(kept.len(), STDERR_KEPT);
        assert!(kept.starts_with(b"x") && kept.ends_with(b"xend"));
        let mut tail = Tail::default();
        tail.push(&vec![b'y'; STDERR_KEPT * 3]);
        assert_eq!(tail.into_vec().len(), STDERR_KEPT);
    }
}
