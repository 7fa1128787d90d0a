//! A link: the control connection to the bridge, and a way to open the kernel's channels.
//!
//! Both links speak the same frames. The relay carries everything in one exec stream; the socket link's stream carries the
//! control connection alone, and its channels are Unix sockets of their own.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio_util::codec::FramedRead;

use super::Channel;
use super::frame::{Frame, FrameCodec, invalid};
use super::pump::{ChannelReader, ChannelWriter};
use super::relay::{RelayStreams, open_relay_stream};
use super::socket::SocketDirectory;
use futures_util::StreamExt;

/// How many control messages may wait for the driver; an honest bridge sends a handful in a kernel's life.
const CONTROL_QUEUE: usize = 256;

/// A control message on its way to the bridge, with the descriptors that go with it on the socket link.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) frame: Frame,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Takes control messages, and never refuses one while the link lives: each belongs to a call that waits for its answer, or to the
/// one cell that runs, so that there are few however slowly the bridge reads.
pub(super) type ControlSender = mpsc::UnboundedSender<Outgoing>;

/// A connected link.
#[derive(Debug)]
pub(crate) struct Link {
    outgoing: ControlSender,
    /// Payloads of stream 0; the end, or the reason of a cut, comes last.
    control: mpsc::Receiver<std::io::Result<Bytes>>,
    opener: Opener,
}

/// Opens channels; a cheap handle.
#[derive(Debug, Clone)]
pub(crate) enum Opener {
    Relay { streams: Arc<RelayStreams>, outgoing: mpsc::Sender<Frame> },
    Socket(Arc<SocketDirectory>),
}

impl Link {
    /// Takes over a link whose `outgoing` queue somebody writes out, and reads its frames.
    pub(super) fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        outgoing: ControlSender,
        opener: Opener,
    ) -> Self {
        let (sender, control) = mpsc::channel(CONTROL_QUEUE);
        let streams = match &opener {
            Opener::Relay { streams, .. } => Some(Arc::clone(streams)),
            Opener::Socket(_) => None,
        };
        tokio::spawn(read_frames(reader, sender, streams));
        Self { outgoing, control, opener }
    }

    pub(super) fn into_parts(self) -> (ControlSender, mpsc::Receiver<std::io::Result<Bytes>>, Opener) {
        (self.outgoing, self.control, self.opener)
    }
}

impl Opener {
    /// Opens one channel of the kernel's generation as a byte stream.
    pub(super) async fn open(
        &self,
        channel: Channel,
        generation: u64,
    ) -> std::io::Result<(ChannelReader, ChannelWriter)> {
        match self {
            Self::Relay { streams, outgoing } => open_relay_stream(streams, outgoing, channel).await,
            Self::Socket(directory) => directory.connect(channel, generation).await,
        }
    }
}

/// Reads frames until the link ends, and hands them out. It never waits for a consumer: control messages past the queue's
/// bound, and bytes past a stream's credit, end the link.
async fn read_frames(
    reader: impl AsyncRead + Send + Unpin,
    control: mpsc::Sender<std::io::Result<Bytes>>,
    streams: Option<Arc<RelayStreams>>,
) {
    let mut frames = FramedRead::with_capacity(reader, FrameCodec, 8 * 1024);
    let end = loop {
        let frame = match frames.next().await {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => break Some(error),
            None => break None,
        };
        if frame.stream == 0 {
            match control.try_send(Ok(frame.payload)) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(_)) => {
                    break Some(invalid("the bridge flooded the control connection"));
                }
                Err(mpsc::error::TrySendError::Closed(_)) => return,
            }
        } else if let Some(streams) = &streams {
            if let Err(error) = streams.receive(frame) {
                break Some(error);
            }
        } else {
            break Some(invalid("the bridge sent a channel's frame on the socket link"));
        }
    };
    if let Some(streams) = streams {
        streams.close_all();
    }
    if let Some(error) = end {
        tracing::warn!(%error, "the link to the bridge was cut");
        // Its reader takes all that comes.
        let _ = control.send(Err(error)).await;
    }
}
