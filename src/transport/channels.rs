//! The kernel's channels as the driver uses them: shell, stdin, control and IOPub, over ZeroMQ through the guard.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::ready;
use futures_util::stream::{BoxStream, SelectAll, select_all};
use futures_util::{Stream, StreamExt};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use zeromq::util::PeerIdentity;
use zeromq::{DealerSocket, Socket, SocketEvent, SocketOptions, SocketRecv, SocketSend, SubSocket, ZmqMessage};

use super::Channel;
use super::link::Opener;
use super::pump::{ChannelEnd, pump};
use super::unread::Unread;

/// Something that came from the kernel.
#[derive(Debug)]
pub(crate) enum Incoming {
    Message(Channel, Vec<Bytes>),
    End(ChannelEnd),
}

/// Why the channels could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    #[error("opening the {} channel", .0.name())]
    Open(Channel, #[source] std::io::Error),
    #[error("ZeroMQ on the {} channel", .0.name())]
    Zmq(Channel, #[source] zeromq::ZmqError),
    #[error("the kernel does not read what it is sent on the {} channel", .0.name())]
    Unread(Channel),
}

/// The connected channels of one kernel generation. A restart makes new ones: only SUB would reconnect by itself.
pub(crate) struct Channels {
    shell: DealerSocket,
    stdin: DealerSocket,
    control: DealerSocket,
    iopub: SubSocket,
    monitors: SelectAll<BoxStream<'static, Channel>>,
    cuts: mpsc::UnboundedReceiver<ChannelEnd>,
    unread: Unread,
}

impl std::fmt::Debug for Channels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channels").finish_non_exhaustive()
    }
}

impl Channels {
    /// Connects to the kernel of this generation. `private` is a directory that only we can enter, for the sockets between ZeroMQ and the guard.
    pub(crate) async fn connect(
        opener: &Opener,
        generation: u64,
        identity: &str,
        private: &Path,
        timeout: Duration,
    ) -> Result<Self, ChannelError> {
        let (sender, cuts) = mpsc::unbounded_channel();
        let unread = Unread::default();
        let options = || {
            let mut options = SocketOptions::default();
            options.connect_timeout(timeout);
            // Shell and stdin must carry the same identity, or `input_request` never arrives.
            if let Ok(identity) = identity.parse::<PeerIdentity>() {
                options.peer_identity(identity);
            }
            options
        };
        let attach = |channel| attach(channel, opener, generation, private, (sender.clone(), unread.clone()));
        let dealer = async |channel: Channel| {
            let mut socket = DealerSocket::with_options(options());
            let endpoint = attach(channel).await?;
            socket.connect(&endpoint).await.map_err(|error| ChannelError::Zmq(channel, error))?;
            Ok(socket)
        };
        let sub = async {
            let mut socket = SubSocket::with_options(options());
            let endpoint = attach(Channel::Iopub).await?;
            let zmq = |error| ChannelError::Zmq(Channel::Iopub, error);
            socket.subscribe("").await.map_err(zmq)?;
            socket.connect(&endpoint).await.map_err(zmq)?;
            Ok(socket)
        };
        let (mut shell, mut stdin, mut control, mut iopub) =
            tokio::try_join!(dealer(Channel::Shell), dealer(Channel::Stdin), dealer(Channel::Control), sub)?;
        let monitors = select_all([
            disconnected(Channel::Shell, shell.monitor()),
            disconnected(Channel::Stdin, stdin.monitor()),
            disconnected(Channel::Control, control.monitor()),
            disconnected(Channel::Iopub, iopub.monitor()),
        ]);
        Ok(Self { shell, stdin, control, iopub, monitors, cuts, unread })
    }

    /// Queues a message. It does not wait for the kernel to read it, and fails if too much waits already.
    pub(crate) async fn send(&mut self, channel: Channel, frames: Vec<Bytes>) -> Result<(), ChannelError> {
        if !self.unread.admit(channel, &frames) {
            return Err(ChannelError::Unread(channel));
        }
        let zmq = |error| ChannelError::Zmq(channel, error);
        let message = ZmqMessage::try_from(frames).map_err(|_| zmq(zeromq::ZmqError::NoMessage))?;
        match channel {
            Channel::Shell => self.shell.send(message).await,
            Channel::Stdin => self.stdin.send(message).await,
            Channel::Control => self.control.send(message).await,
            Channel::Iopub => Err(zeromq::ZmqError::Socket("IOPub only sends to us")),
        }
        .map_err(zmq)
    }

    /// What comes next, on any channel, in no preferred order: a flood on one does not starve the others. A channel's end
    /// comes after its last message.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn recv(&mut self) -> Incoming {
        let (channel, received) = tokio::select! {
            received = self.iopub.recv() => (Channel::Iopub, received),
            received = self.shell.recv() => (Channel::Shell, received),
            received = self.control.recv() => (Channel::Control, received),
            received = self.stdin.recv() => (Channel::Stdin, received),
            Some(channel) = self.monitors.next() => return Incoming::End(self.end(channel)),
        };
        match received {
            Ok(message) => Incoming::Message(channel, message.into_vec()),
            Err(error) => {
                tracing::warn!(channel = channel.name(), %error, "the channel failed");
                Incoming::End(self.end(channel))
            }
        }
    }

    fn end(&mut self, channel: Channel) -> ChannelEnd {
        let mut cut = None;
        while let Ok(end) = self.cuts.try_recv() {
            cut = cut.or(end.cut);
        }
        ChannelEnd { channel, cut }
    }
}

/// `recv` does not return when the peer is gone; the monitor tells, once everything before has been received.
fn disconnected(
    channel: Channel,
    monitor: impl Stream<Item = SocketEvent> + Send + 'static,
) -> BoxStream<'static, Channel> {
    monitor.filter_map(move |event| ready(matches!(event, SocketEvent::Disconnected(_)).then_some(channel))).boxed()
}

/// Opens a channel and puts the guard between it and a private socket; returns the endpoint for ZeroMQ to connect to.
///
/// The private socket takes one connection and its path goes with it, so that a SUB whose link was cut does not dial again.
async fn attach(
    channel: Channel,
    opener: &Opener,
    generation: u64,
    private: &Path,
    (ends, unread): (mpsc::UnboundedSender<ChannelEnd>, Unread),
) -> Result<String, ChannelError> {
    let failed = |error| ChannelError::Open(channel, error);
    let stream = opener.open(channel, generation).await.map_err(failed)?;
    let path = private.join(format!("g{generation}-{}", channel.number()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(failed)?;
    let endpoint = format!("ipc://{}", path.display());
    tokio::spawn(async move {
        let accepted = listener.accept().await;
        drop(listener);
        let _ = std::fs::remove_file(&path);
        match accepted {
            Ok((local, _)) => pump(channel, stream, local, ends, unread).await,
            Err(error) => tracing::warn!(%error, "accepting our own ZeroMQ socket"),
        }
    });
    Ok(endpoint)
}
