//! The control connection: typed requests to the bridge, its replies and its events.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::frame::{Frame, invalid};
use super::link::{ControlSender, Link, Opener, Outgoing};
use super::recording::{Page, Reassembly};

mod report;
#[cfg(test)]
mod tests;

pub(crate) use report::{CellReport, Hello, KernelExit, Launched};

/// On the relay the bridge takes 60 s without a ping for the end of the stream.
const PING_INTERVAL: Duration = Duration::from_secs(10);
const EVENT_QUEUE: usize = 64;
/// The bridge keeps 8 MiB of a recording; one that offers more than this is forged.
const MAX_RECORDING: u64 = 16 << 20;

/// What the bridge tells unasked.
#[derive(Debug)]
pub(crate) enum BridgeEvent {
    Exit(KernelExit),
    /// The other side broke the protocol.
    Cut(String),
    /// The control connection has ended.
    Gone,
}

/// What is recorded of a cell.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// Each message as its frames.
    pub(crate) messages: Vec<Vec<Bytes>>,
    /// How many of them come before those that are lost, if any are.
    pub(crate) gap: Option<usize>,
}

/// Why a request to the bridge failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BridgeError {
    #[error("the bridge has gone")]
    Gone,
    #[error("another controller holds the session")]
    Held,
    #[error("the bridge refused: {0}")]
    Refused(String),
    #[error("the bridge's answer could not be read: {0}")]
    Unreadable(String),
    #[error("the bridge did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("making the kernel's sockets")]
    Sockets(#[from] std::io::Error),
}

#[derive(Deserialize)]
struct Incoming {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    ok: bool,
    #[serde(default)]
    code: Option<serde_json::Value>,
    #[serde(default)]
    error: Option<String>,
}

/// Requests that wait for their answer, by id; none once the connection has ended, when nothing can be answered any more.
type Waiting = Arc<Mutex<Option<VecDeque<(u64, oneshot::Sender<Result<Bytes, BridgeError>>)>>>>;

/// The bridge, as the driver sees it.
#[derive(Debug)]
pub(crate) struct Bridge {
    outgoing: ControlSender,
    waiting: Waiting,
    events: mpsc::Receiver<BridgeEvent>,
    opener: Opener,
    next_id: u64,
}

impl Bridge {
    /// Says hello over a new link and takes hold of the session. A holder that has lost its link is known again by its name.
    pub(crate) async fn greet(link: Link, holder: &str, timeout: Duration) -> Result<(Self, Hello), BridgeError> {
        let mut bridge = Self::over(link);
        let hello = bridge.hello(json!({ "type": "hello", "v": 1, "holder": holder }), timeout).await?;
        Ok((bridge, hello))
    }

    /// Says hello as one who only reads the recording; again for news of the latest cell.
    pub(crate) async fn greet_as_watcher(&mut self, timeout: Duration) -> Result<Hello, BridgeError> {
        self.hello(json!({ "type": "hello", "v": 1, "watch": true }), timeout).await
    }

    /// Speaks to the bridge behind a link, which expects a greeting first.
    pub(crate) fn over(link: Link) -> Self {
        let (outgoing, control, opener) = link.into_parts();
        let waiting = Waiting::new(Mutex::new(Some(VecDeque::new())));
        let (sender, events) = mpsc::channel(EVENT_QUEUE);
        tokio::spawn(read_control(control, Arc::clone(&waiting), sender));
        if let Opener::Relay { outgoing, .. } = &opener {
            tokio::spawn(ping(outgoing.downgrade()));
        }
        Self { outgoing, waiting, events, opener, next_id: 1 }
    }

    async fn hello(&mut self, message: serde_json::Value, timeout: Duration) -> Result<Hello, BridgeError> {
        let reply = self.request(message, Vec::new(), timeout).await?;
        let hello: Hello = read(&reply)?;
        // It becomes part of messages and of file names of sockets.
        if hello.session.len() > 64 || !hello.session.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(BridgeError::Unreadable("a session id that is not one".to_owned()));
        }
        Ok(hello)
    }

    /// The next event.
    ///
    /// # Cancel safety
    ///
    /// No event is lost.
    pub(crate) async fn event(&mut self) -> BridgeEvent {
        self.events.recv().await.unwrap_or(BridgeEvent::Gone)
    }

    /// Whether the control connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Whether the container has dialled a socket of the host.
    pub(crate) fn has_dialled(&self) -> bool {
        matches!(self.opener, Opener::Socket(_))
    }

    pub(crate) fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Ends the kernel of the generation before, if there is one, and forks the next.
    pub(crate) async fn start(&mut self, before: u64, timeout: Duration) -> Result<Launched, BridgeError> {
        // What the relay says of a kernel can be forged.
        let generation = before
            .checked_add(1)
            .ok_or_else(|| BridgeError::Unreadable("a kernel of the last generation that there can be".to_owned()))?;
        let descriptors = match &self.opener {
            Opener::Relay { .. } => Vec::new(),
            Opener::Socket(directory) => directory.listen(generation)?,
        };
        let request = json!({ "type": "start", "fds": descriptors.len() });
        let reply = self.request(request, descriptors, timeout).await?;
        let launched: Launched = read(&reply)?;
        if let Opener::Socket(directory) = &self.opener {
            directory.forget(before);
            if launched.generation != generation {
                return Err(BridgeError::Unreadable(format!(
                    "generation {} where {generation} was due",
                    launched.generation
                )));
            }
        }
        Ok(launched)
    }

    /// Sends one SIGINT to the kernel in place of the `interrupt_request` that it has not answered; the answer comes through the receiver.
    pub(crate) fn interrupt(&mut self, generation: u64, msg_id: &str) -> oneshot::Receiver<Result<Bytes, BridgeError>> {
        self.send(json!({ "type": "interrupt", "generation": generation, "msg_id": msg_id }), Vec::new())
    }

    /// Ends all that a script has started, whose own `bridge script` does not do so any more; whether nothing is left comes through the receiver.
    pub(crate) fn end_script(&mut self, script: &str) -> oneshot::Receiver<Result<Bytes, BridgeError>> {
        self.send(json!({ "type": "end_script", "script": script }), Vec::new())
    }

    /// Tells the deadline of the cell that is sent now, for a bridge whose controller goes.
    pub(crate) fn deadline(&self, timeout: Duration, grace: Duration) {
        self.tell(&json!({ "type": "deadline", "ms": millis(timeout), "grace_ms": millis(grace) }));
    }

    /// The cell of this request has ended, and its result is out: its deadline is dropped.
    pub(crate) fn done(&self, msg_id: &str) {
        self.tell(&json!({ "type": "done", "msg_id": msg_id }));
    }

    /// Asks for a sign of life, which comes through the receiver.
    pub(crate) fn ping(&mut self) -> oneshot::Receiver<Result<Bytes, BridgeError>> {
        self.send(json!({ "type": "ping" }), Vec::new())
    }

    /// Waits until the bridge has dealt with all that was told before.
    pub(crate) async fn settle(&mut self, timeout: Duration) -> Result<(), BridgeError> {
        self.request(json!({ "type": "ping" }), Vec::new(), timeout).await.map(drop)
    }

    /// Reads on in the recording of the latest cell.
    pub(crate) async fn page(&mut self, cell: u64, from: u64, timeout: Duration) -> Result<Page, BridgeError> {
        let reply = self.request(json!({ "type": "record", "cell": cell, "from": from }), Vec::new(), timeout).await?;
        read(&reply)
    }

    /// The recording of a cell as it is now. The cell may go on faster than it can be read: what is recorded meanwhile is not waited for, and
    /// comes on IOPub.
    pub(crate) async fn recording(&mut self, cell: u64, timeout: Duration) -> Result<Recording, BridgeError> {
        let mut reassembly = Reassembly::default();
        let mut recording = Recording::default();
        let (mut end, mut read) = (None, 0);
        loop {
            let before = reassembly.next();
            let page = self.page(cell, before, timeout).await?;
            if page.cell != cell {
                break;
            }
            let end = *end.get_or_insert(page.total);
            read = page.next.saturating_sub(page.from).saturating_add(read);
            let messages = reassembly.push(&page).map_err(|error| BridgeError::Unreadable(error.to_string()))?;
            if reassembly.lost() > 0 {
                recording.gap.get_or_insert(recording.messages.len());
            }
            recording.messages.extend(messages);
            if reassembly.next() >= end || reassembly.next() == before || read >= MAX_RECORDING {
                break;
            }
        }
        Ok(recording)
    }

    fn tell(&self, message: &serde_json::Value) {
        // A link that has ended takes nothing, and is made again.
        let _ = self.outgoing.send(Outgoing { frame: Frame::data(0, message.to_string()), descriptors: Vec::new() });
    }

    fn send(
        &mut self,
        mut message: serde_json::Value,
        descriptors: Vec<OwnedFd>,
    ) -> oneshot::Receiver<Result<Bytes, BridgeError>> {
        let id = self.next_id;
        self.next_id += 1;
        if let Some(fields) = message.as_object_mut() {
            fields.insert("id".to_owned(), id.into());
        }
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = waiting.as_mut() else { return receiver };
        let outgoing = Outgoing { frame: Frame::data(0, message.to_string()), descriptors };
        if self.outgoing.send(outgoing).is_ok() {
            waiting.push_back((id, sender));
        }
        receiver
    }

    async fn request(
        &mut self,
        message: serde_json::Value,
        descriptors: Vec<OwnedFd>,
        timeout: Duration,
    ) -> Result<Bytes, BridgeError> {
        match tokio::time::timeout(timeout, self.send(message, descriptors)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(BridgeError::Gone),
            Err(_) => Err(BridgeError::TimedOut(timeout)),
        }
    }
}

/// Not with the control messages: of these there would be ever more where the relay does not read.
async fn ping(outgoing: mpsc::WeakSender<Frame>) {
    let mut interval = tokio::time::interval(PING_INTERVAL);
    loop {
        interval.tick().await;
        let Some(outgoing) = outgoing.upgrade() else { return };
        // Without an id there is no answer to match.
        if outgoing.send(Frame::data(0, &br#"{"type":"ping"}"#[..])).await.is_err() {
            return;
        }
    }
}

async fn read_control(
    mut control: mpsc::Receiver<std::io::Result<Bytes>>,
    waiting: Waiting,
    events: mpsc::Sender<BridgeEvent>,
) {
    let end = loop {
        let payload = match control.recv().await {
            Some(Ok(payload)) => payload,
            Some(Err(error)) => break Some(error),
            None => break None,
        };
        let incoming: Incoming = match read(&payload) {
            Ok(incoming) => incoming,
            Err(error) => {
                tracing::warn!(%error, "a control message was left out");
                continue;
            }
        };
        if incoming.kind == "reply" {
            answer(&waiting, &incoming, payload);
        } else if incoming.kind == "exit"
            && let Ok(exit) = read(&payload)
            && events.try_send(BridgeEvent::Exit(exit)).is_err()
        {
            break Some(invalid("the bridge told of too many events"));
        }
    };
    *waiting.lock().unwrap_or_else(PoisonError::into_inner) = None;
    if let Some(error) = end.filter(|error| error.kind() == std::io::ErrorKind::InvalidData) {
        // However full the queue is: a link that was cut is not made again.
        let _ = events.send(BridgeEvent::Cut(error.to_string())).await;
    }
}

fn answer(waiting: &Waiting, incoming: &Incoming, payload: Bytes) {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(waiting) = waiting.as_mut() else { return };
    let Some(position) = waiting.iter().position(|(id, _)| Some(*id) == incoming.id) else {
        return;
    };
    let Some((_, sender)) = waiting.remove(position) else { return };
    let code = incoming.code.as_ref().and_then(serde_json::Value::as_str);
    let result = match (incoming.ok, code) {
        (true, _) => Ok(payload),
        (false, Some("held")) => Err(BridgeError::Held),
        (false, _) => Err(BridgeError::Refused(incoming.error.clone().unwrap_or_default())),
    };
    let _ = sender.send(result);
}

/// Whether the answer to `end_script` says that nothing is left.
pub(crate) fn is_clean(answer: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Answer {
        clean: bool,
    }
    read::<Answer>(answer).is_ok_and(|answer| answer.clean)
}

fn read<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, BridgeError> {
    serde_json::from_slice(payload).map_err(|error| BridgeError::Unreadable(error.to_string()))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
