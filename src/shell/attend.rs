//! The host's side of one running script. What speaks there shares its user with the script: all of it is taken as hostile.

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::codec::{Encoder as _, FramedRead};

use super::outcome::{ScriptEvent, ScriptStatus};
use super::request::{CONTROL, Request, STDERR, STDIN, STDOUT, pieces};
use super::text::WholeCharacters;
use crate::execution::{Limits, SpillDirectory, StreamName, Text, TextStream};
use crate::transport::{Frame, FrameCodec, FrameKind};
use crate::{Exec, ExecEnd};

/// How long the engine and the bridge may take to start a script.
const START_WAIT: Duration = Duration::from_secs(60);
/// What the bridge may take beyond the script's time and grace, to end and to count what resists.
const SLACK: Duration = Duration::from_secs(5);
/// The bridge reads the script's output in pieces of this size.
const CHUNK: usize = 64 * 1024;
const CREDIT: usize = 1 << 20;
/// A piece of stdin: less than the credit, so that the script is fed while the next is on its way.
const STDIN_PIECE: usize = 256 * 1024;

/// What attends to a script.
pub(crate) struct Attendance {
    pub(crate) exec: Exec,
    pub(crate) limits: Limits,
    pub(crate) spills: Option<SpillDirectory>,
    /// A consumer that is slower than the script slows it, as a pipe does.
    pub(crate) events: Option<mpsc::Sender<ScriptEvent>>,
}

/// What came of a script, as far as the exec told.
#[derive(Debug)]
pub(crate) struct Attended {
    pub(crate) end: End,
    /// While it ran, the memory limit ended a process of the container.
    pub(crate) out_of_memory: bool,
    pub(crate) stdout: Text,
    pub(crate) stderr: Text,
    /// When the word came that it runs, or that it is about to.
    pub(crate) started: Option<Instant>,
}

#[derive(Debug)]
pub(crate) enum End {
    /// It ended, and with it all that it had started, if `clean`.
    Told { status: ScriptStatus, running: Duration, clean: bool },
    /// It never ran.
    Refused(Refusal),
    /// There was no word of its end: why, and what the engine knows.
    Untold { why: String, interrupted: bool, overdue: bool, exec: Option<ExecEnd> },
}

/// Why the bridge did not run a script.
#[derive(Debug, Default)]
pub(crate) struct Refusal {
    pub(crate) code: String,
    pub(crate) errno: i32,
    pub(crate) detail: String,
}

/// Passes the streams on until the script has ended; `interrupt` completes when it is to be ended.
pub(crate) async fn attend(attendance: Attendance, request: &Request, interrupt: impl Future<Output = ()>) -> Attended {
    let Attendance { exec: Exec { stdin, stdout, end }, limits, spills, mut events } = attendance;
    let mut output = Output {
        stdout: Stream::new(StreamName::Stdout, limits, spills.clone()),
        stderr: Stream::new(StreamName::Stderr, limits, spills),
    };
    let credit = Semaphore::new(CREDIT);
    let (stop, stopped) = oneshot::channel::<()>();
    let mut stop = Some(stop);
    let mut writing = Box::pin(write(stdin, request, &credit, stopped));
    let mut written = false;
    let mut interrupt = std::pin::pin!(interrupt);
    let mut frames = FramedRead::with_capacity(stdout, FrameCodec, 8 * 1024);
    let mut started = None;
    let mut out_of_memory = false;
    let mut deadline = Instant::now() + START_WAIT;
    let mut pending: Option<ScriptEvent> = None;
    let end = loop {
        tokio::select! {
            biased;
            () = &mut interrupt, if stop.is_some() => drop(stop.take()),
            () = sleep_until(deadline) => {
                if pending.take().is_none() {
                    let why = "it did not end when its time was up".to_owned();
                    break End::Untold { why, interrupted: false, overdue: true, exec: None };
                }
                // It is the consumer who does not go on: what is still told is collected without it.
                events = None;
                deadline = Instant::now() + SLACK;
            }
            () = &mut writing, if !written => written = true,
            passed = pass_on(events.as_ref(), &mut pending), if pending.is_some() => {
                if !passed {
                    events = None;
                }
            }
            frame = frames.next(), if pending.is_none() => {
                let said = match frame {
                    Some(Ok(frame)) => output.take(frame, &credit),
                    Some(Err(error)) if started.is_some() => Err(error.to_string()),
                    // An engine that cannot start a program says so in the program's place.
                    Some(Err(error)) => {
                        let text = one_line(frames.read_buffer());
                        let why = if text.is_empty() { error.to_string() } else { text };
                        drop(frames);
                        break End::Untold { why, interrupted: false, overdue: false, exec: ended(end).await };
                    }
                    None => {
                        let why = "what it ran under was ended".to_owned();
                        break End::Untold { why, interrupted: stop.is_none(), overdue: false, exec: ended(end).await };
                    }
                };
                match said {
                    Ok(Said::Event(event)) => pending = events.is_some().then_some(event),
                    Ok(Said::Nothing) => {}
                    Ok(Said::Started) => {
                        let at = *started.get_or_insert_with(Instant::now);
                        deadline = at + request.timeout + request.grace + SLACK;
                    }
                    Ok(Said::Refused(refusal)) => break End::Refused(refusal),
                    Ok(Said::Ended { status, running, clean, oom }) => {
                        out_of_memory = oom;
                        break End::Told { status, running, clean };
                    }
                    Err(why) => break untold(&why),
                }
            }
        }
    };
    let (last_stdout, stdout) = output.stdout.finish();
    let (last_stderr, stderr) = output.stderr.finish();
    if let Some(events) = events {
        for event in [ScriptEvent::Stdout(last_stdout), ScriptEvent::Stderr(last_stderr)] {
            if matches!(&event, ScriptEvent::Stdout(bytes) | ScriptEvent::Stderr(bytes) if !bytes.is_empty()) {
                let _ = tokio::time::timeout(SLACK, events.send(event)).await;
            }
        }
    }
    Attended { end, out_of_memory, stdout: stdout.text().await, stderr: stderr.text().await, started }
}

fn untold(why: &str) -> End {
    End::Untold { why: why.to_owned(), interrupted: false, overdue: false, exec: None }
}

/// Gives the event to the consumer when there is room; whether there still is a consumer.
async fn pass_on(events: Option<&mpsc::Sender<ScriptEvent>>, pending: &mut Option<ScriptEvent>) -> bool {
    let Some(permit) = (match events {
        Some(events) => events.reserve().await.ok(),
        None => None,
    }) else {
        *pending = None;
        return false;
    };
    if let Some(event) = pending.take() {
        permit.send(event);
    }
    true
}

/// The beginning of a text, for a message.
fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect::<String>().trim().to_owned()
}

async fn ended(end: impl Future<Output = Result<ExecEnd, crate::Error>>) -> Option<ExecEnd> {
    tokio::time::timeout(SLACK, end).await.ok().and_then(Result::ok)
}

/// Sends all that the script is started with, then its input as it takes it, and closes when told to: that ends the script.
async fn write(
    mut stdin: impl AsyncWrite + Unpin,
    request: &Request,
    credit: &Semaphore,
    mut stopped: oneshot::Receiver<()>,
) {
    let sending = async {
        for frame in request.frames() {
            send(&mut stdin, &frame).await?;
        }
        stdin.flush().await?;
        if let Some(input) = &request.stdin {
            for piece in pieces(input.clone()) {
                send_stdin(&mut stdin, piece, credit).await?;
            }
            send(&mut stdin, &Frame::close(STDIN)).await?;
            stdin.flush().await?;
        }
        std::io::Result::Ok(())
    };
    tokio::select! {
        biased;
        // Before anything is sent, so that what is to be ended at once never begins.
        _ = &mut stopped => {}
        sent = sending => {
            if let Err(error) = sent {
                tracing::debug!(%error, "the script does not take its input");
            }
            drop((&mut stopped).await);
        }
    }
    let _ = stdin.shutdown().await;
}

async fn send_stdin(
    stdin: &mut (impl AsyncWrite + Unpin),
    mut piece: Bytes,
    credit: &Semaphore,
) -> std::io::Result<()> {
    while !piece.is_empty() {
        let part = piece.split_to(piece.len().min(STDIN_PIECE));
        // It is never closed.
        let Ok(permit) = credit.acquire_many(u32::try_from(part.len()).unwrap_or(u32::MAX)).await else { break };
        permit.forget();
        send(stdin, &Frame::data(STDIN, part)).await?;
        stdin.flush().await?;
    }
    Ok(())
}

async fn send(stdin: &mut (impl AsyncWrite + Unpin), frame: &Frame) -> std::io::Result<()> {
    let mut bytes = BytesMut::new();
    FrameCodec.encode(frame, &mut bytes)?;
    stdin.write_all(&bytes).await
}

struct Output {
    stdout: Stream,
    stderr: Stream,
}

struct Stream {
    text: TextStream,
    characters: WholeCharacters,
}

/// What a frame says.
enum Said {
    Nothing,
    Event(ScriptEvent),
    Started,
    Refused(Refusal),
    Ended { status: ScriptStatus, running: Duration, clean: bool, oom: bool },
}

impl Output {
    fn take(&mut self, frame: Frame, credit: &Semaphore) -> Result<Said, String> {
        match (frame.stream, frame.kind) {
            (STDOUT | STDERR, FrameKind::Data) if frame.payload.len() <= CHUNK => {
                let (stream, event): (_, fn(Bytes) -> ScriptEvent) = match frame.stream {
                    STDOUT => (&mut self.stdout, ScriptEvent::Stdout),
                    _ => (&mut self.stderr, ScriptEvent::Stderr),
                };
                let bytes = stream.push(frame.payload);
                Ok(if bytes.is_empty() { Said::Nothing } else { Said::Event(event(bytes)) })
            }
            (STDIN, FrameKind::Credit) if frame.payload.len() == 4 => {
                let given = (&frame.payload[..]).get_u32() as usize;
                if credit.available_permits().saturating_add(given) > CREDIT {
                    return Err("it gave more credit than there is".to_owned());
                }
                credit.add_permits(given);
                Ok(Said::Nothing)
            }
            (CONTROL, FrameKind::Data) => answer(&frame.payload),
            _ => Err("what speaks for it broke the protocol".to_owned()),
        }
    }
}

impl Stream {
    fn new(name: StreamName, limits: Limits, spills: Option<SpillDirectory>) -> Self {
        Self { text: TextStream::new(name, limits, spills), characters: WholeCharacters::default() }
    }

    fn push(&mut self, bytes: Bytes) -> Bytes {
        let bytes = self.characters.push(bytes);
        if !bytes.is_empty() {
            self.text.push(&String::from_utf8_lossy(&bytes));
        }
        bytes
    }

    fn finish(mut self) -> (Bytes, TextStream) {
        let rest = self.characters.rest();
        if !rest.is_empty() {
            self.text.push(&String::from_utf8_lossy(&rest));
        }
        (rest, self.text)
    }
}

fn answer(payload: &[u8]) -> Result<Said, String> {
    let unreadable = || "its end was told in words that make no sense".to_owned();
    let mut words = payload.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut fields = std::collections::HashMap::new();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        fields.insert(name, value);
    }
    let text = |name: &str| fields.get(name).map(AsRef::as_ref).unwrap_or_default();
    let number = |name: &str| text(name).parse::<i32>().ok();
    match text("type") {
        "started" => Ok(Said::Started),
        "refused" => Ok(Said::Refused(Refusal {
            code: text("code").chars().take(40).collect(),
            errno: number("errno").unwrap_or(0),
            detail: text("detail").chars().take(200).collect(),
        })),
        "end" => {
            let status = match (text("reason"), number("exit"), number("signal")) {
                ("timeout", ..) => ScriptStatus::TimedOut,
                ("interrupt", ..) => ScriptStatus::Interrupted,
                (_, Some(code @ 0..=255), None) => ScriptStatus::Exited(code),
                (_, None, Some(signal @ 1..=64)) => ScriptStatus::Signaled(signal),
                _ => return Err(unreadable()),
            };
            let running = text("us").parse().map(Duration::from_micros).map_err(|_| unreadable())?;
            Ok(Said::Ended { status, running, clean: text("clean") == "1", oom: text("oom") == "1" })
        }
        _ => Err(unreadable()),
    }
}

#[cfg(test)]
mod tests;
