//! The connection to one kernel generation: signed messages on its channels, and readiness.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use crate::protocol::content::Empty;
use crate::protocol::{Header, Inbox, Key, Parsed, encode, encode_answer};
use crate::transport::{Bridge, BridgeEvent, Channel, ChannelEnd, ChannelError, Channels, Incoming, Launched};

/// A kernel that is ready to be asked answers within milliseconds; a lost request is repeated.
const READY_RETRY: Duration = Duration::from_millis(500);
/// While a kernel is made ready nobody takes its messages. What it sends past this is left out: it is hostile, or in the middle
/// of a cell whose recording is read afterwards.
const BACKLOG: usize = 8 << 20;

/// Why a kernel could not be connected to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error("the kernel ended before it was ready ({0})")]
    Died(String),
    #[error("the kernel closed its {0} channel before it was ready")]
    Closed(&'static str),
    #[error("the kernel was not ready within {0:?}")]
    NotReady(Duration),
}

/// What came from the kernel.
#[derive(Debug)]
pub(crate) enum Received {
    Message(Channel, Box<Parsed>),
    End(ChannelEnd),
}

/// A ready kernel.
pub(crate) struct Connection {
    channels: Channels,
    inbox: Inbox,
    key: Key,
    session: String,
    pub(crate) generation: u64,
    /// What came while the kernel was made ready: a kernel that is taken over may be in the middle of a cell.
    backlog: VecDeque<Received>,
    backlog_bytes: usize,
    unreadable: u64,
}

impl Connection {
    /// Connects and waits until the kernel is ready: any message seen on IOPub *and* a `kernel_info_reply`.
    pub(crate) async fn open(
        bridge: &mut Bridge,
        launched: &Launched,
        session: &str,
        private: &Path,
        deadline: Duration,
    ) -> Result<Self, ConnectError> {
        let end = Instant::now() + deadline;
        let opener = bridge.opener().clone();
        let connect = Channels::connect(&opener, launched.generation, session, private, deadline);
        let channels = tokio::select! {
            channels = connect => channels?,
            died = death(bridge, launched.generation) => return Err(ConnectError::Died(died)),
        };
        let key = Key::new(launched.key.as_str());
        let mut connection = Self {
            channels,
            inbox: Inbox::new(key.clone()),
            key,
            session: session.to_owned(),
            generation: launched.generation,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            unreadable: 0,
        };
        tokio::select! {
            ready = timeout(end - Instant::now(), connection.ready()) => match ready {
                Ok(ready) => ready?,
                Err(_) => return Err(ConnectError::NotReady(deadline)),
            },
            died = death(bridge, launched.generation) => return Err(ConnectError::Died(died)),
        }
        Ok(connection)
    }

    /// `kernel_info_request` on control provokes both. The welcome alone would not do: only a topic's first subscriber gets
    /// one (XPUB of ipykernel ≥ 7.2).
    async fn ready(&mut self) -> Result<(), ConnectError> {
        let (mut replied, mut subscribed) = (false, false);
        while !(replied && subscribed) {
            self.request(Channel::Control, "kernel_info_request", &Empty {}).await?;
            let retry = Instant::now() + READY_RETRY;
            while !(replied && subscribed) {
                tokio::select! {
                    (received, bytes) = self.next() => {
                        match &received {
                            Received::Message(Channel::Iopub, _) => subscribed = true,
                            Received::Message(_, parsed) => replied |= parsed.header().msg_type == "kernel_info_reply",
                            Received::End(end) => return Err(ConnectError::Closed(end.channel.name())),
                        }
                        self.keep(received, bytes);
                    }
                    () = sleep_until(retry) => break,
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, received: Received, bytes: usize) {
        // IOPub never takes the room of a reply.
        let room = if matches!(received, Received::Message(Channel::Iopub, _)) { BACKLOG / 2 } else { BACKLOG };
        let bytes = self.backlog_bytes.saturating_add(bytes);
        if bytes <= room {
            self.backlog_bytes = bytes;
            self.backlog.push_back(received);
        } else {
            tracing::debug!("a message that came before the kernel was ready was left out");
        }
    }

    /// Sends a request and returns its message id.
    pub(crate) async fn request(
        &mut self,
        channel: Channel,
        msg_type: &str,
        content: &impl Serialize,
    ) -> Result<String, ChannelError> {
        let id = Uuid::new_v4().simple().to_string();
        let frames = encode(msg_type, &self.session, &id, content, &self.key);
        self.channels.send(channel, frames).await?;
        Ok(id)
    }

    /// Answers a request of the kernel.
    pub(crate) async fn answer(
        &mut self,
        parent: &Header,
        msg_type: &str,
        content: &impl Serialize,
    ) -> Result<(), ChannelError> {
        let id = Uuid::new_v4().simple().to_string();
        let frames = encode_answer(msg_type, &self.session, &id, parent, content, &self.key);
        self.channels.send(Channel::Stdin, frames).await
    }

    /// The next readable message. One that cannot be read is left out with a note in the log: the kernel may be hostile.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn recv(&mut self) -> Received {
        match self.backlog.pop_front() {
            Some(received) => received,
            None => self.next().await.0,
        }
    }

    /// With about the memory that it takes.
    async fn next(&mut self) -> (Received, usize) {
        loop {
            match self.channels.recv().await {
                Incoming::Message(channel, frames) => match self.inbox.read(&frames) {
                    Ok(parsed) => {
                        let bytes = frames.iter().map(Bytes::len).sum::<usize>() + size_of::<Parsed>();
                        return (Received::Message(channel, Box::new(parsed)), bytes);
                    }
                    Err(error) => {
                        self.unreadable += 1;
                        report_unreadable(self.unreadable, channel, &frames, &error);
                    }
                },
                Incoming::End(end) => return (Received::End(end), 0),
            }
        }
    }
}

/// Told at each doubling of their count: a kernel that sends nothing else does not fill the log.
fn report_unreadable(count: u64, channel: Channel, frames: &[Bytes], error: &crate::protocol::ParseError) {
    if count.is_power_of_two() {
        let bytes: usize = frames.iter().map(Bytes::len).sum();
        tracing::warn!(count, channel = channel.name(), frames = frames.len(), bytes, %error, "a message was left out");
    }
}

/// Returns when the bridge reports the end of this generation, or is gone.
async fn death(bridge: &mut Bridge, generation: u64) -> String {
    loop {
        match bridge.event().await {
            BridgeEvent::Exit(exit) if exit.generation == generation => {
                return match (exit.oom, exit.signal, exit.code) {
                    (true, ..) => "out of memory".to_owned(),
                    (_, Some(signal), _) => format!("signal {signal}"),
                    (.., Some(code)) => format!("exit code {code}"),
                    _ => "cause unknown".to_owned(),
                };
            }
            BridgeEvent::Cut(reason) => return format!("the link was cut: {reason}"),
            BridgeEvent::Gone => return "the bridge is gone".to_owned(),
            BridgeEvent::Exit(_) => {}
        }
    }
}
