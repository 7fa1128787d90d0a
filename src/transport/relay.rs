//! The relay link: one engine exec stream into `bridge relay`, with the channels multiplexed on it under credit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::codec::Encoder;

use super::Channel;
use super::frame::{Frame, FrameCodec, Kind, invalid};
use super::link::{Link, Opener, Outgoing};
use super::pump::{ChannelReader, ChannelWriter};

/// Each direction of a stream begins with this much credit, in bytes.
const CREDIT: usize = 1 << 20;
/// Credit is given back in steps, not for every chunk.
const CREDIT_STEP: usize = CREDIT / 4;
const OUTGOING_QUEUE: usize = 64;

/// The streams of one relay.
#[derive(Debug, Default)]
pub(crate) struct RelayStreams {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<u8, Entry>,
    last: u8,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    incoming: mpsc::UnboundedSender<Bytes>,
    /// Bytes that the relay may still send; the queue above is bounded by it.
    allowance: Arc<Semaphore>,
    /// Bytes that we may still send.
    credit: Arc<Semaphore>,
}

impl RelayStreams {
    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a frame of a channel. Fails when the relay breaks the protocol.
    pub(super) fn receive(&self, frame: Frame) -> std::io::Result<()> {
        let mut table = self.lock();
        let Some(entry) = table.open.get(&frame.stream) else {
            // Late frames of a stream that we closed.
            return Ok(());
        };
        match frame.kind {
            // It costs no credit: without end, they would fill the queue of a reader that waits.
            Kind::Data if frame.payload.is_empty() => {}
            Kind::Data => {
                let length = u32::try_from(frame.payload.len()).map_err(|_| invalid("a frame of more than 4 GiB"))?;
                let Ok(permit) = entry.allowance.try_acquire_many(length) else {
                    return Err(invalid("the relay sent past its credit"));
                };
                permit.forget();
                // A reader that is gone has closed the stream.
                let _ = entry.incoming.send(frame.payload);
            }
            Kind::Credit => {
                let bytes: [u8; 4] =
                    frame.payload.as_ref().try_into().map_err(|_| invalid("a credit of the wrong length"))?;
                let bytes = u32::from_be_bytes(bytes) as usize;
                if entry.credit.available_permits().saturating_add(bytes) > 16 * CREDIT {
                    return Err(invalid("the relay gave absurd credit"));
                }
                entry.credit.add_permits(bytes);
            }
            Kind::Close => {
                if let Some(entry) = table.open.remove(&frame.stream) {
                    entry.credit.close();
                }
            }
            Kind::Open => return Err(invalid("the relay tried to open a stream")),
        }
        Ok(())
    }

    /// Ends every stream: the link is gone.
    pub(super) fn close_all(&self) {
        let mut table = self.lock();
        table.closed = true;
        for (_, entry) in table.open.drain() {
            entry.credit.close();
        }
    }

    fn forget(&self, stream: u8) -> bool {
        self.lock().open.remove(&stream).is_some()
    }
}

/// Speaks to `bridge relay` through its stdin and stdout.
pub(crate) fn relay_link(
    stdin: impl AsyncWrite + Send + Unpin + 'static,
    stdout: impl AsyncRead + Send + Unpin + 'static,
) -> Link {
    let (control, messages) = mpsc::unbounded_channel();
    let (outgoing, queue) = mpsc::channel(OUTGOING_QUEUE);
    tokio::spawn(write_frames(stdin, messages, queue));
    Link::new(stdout, control, Opener::Relay { streams: Arc::default(), outgoing })
}

/// Control messages go first: what is told of a cell is there before the cell.
async fn write_frames(
    mut stdin: impl AsyncWrite + Send + Unpin,
    mut control: mpsc::UnboundedReceiver<Outgoing>,
    mut queue: mpsc::Receiver<Frame>,
) {
    let mut buffer = BytesMut::new();
    loop {
        let first = tokio::select! {
            biased;
            Some(message) = control.recv() => message.frame,
            Some(frame) = queue.recv() => frame,
            else => break,
        };
        let mut next = Some(first);
        while let Some(frame) = next {
            if let Err(error) = FrameCodec.encode(&frame, &mut buffer) {
                tracing::error!(%error, "a frame could not be written");
                return;
            }
            let mut more = || control.try_recv().map(|message| message.frame).or_else(|_| queue.try_recv()).ok();
            next = if buffer.len() < CREDIT { more() } else { None };
        }
        if stdin.write_all_buf(&mut buffer).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
        if buffer.capacity() > CREDIT_STEP {
            buffer = BytesMut::new();
        }
    }
    let _ = stdin.shutdown().await;
}

pub(super) async fn open_relay_stream(
    streams: &Arc<RelayStreams>,
    outgoing: &mpsc::Sender<Frame>,
    channel: Channel,
) -> std::io::Result<(ChannelReader, ChannelWriter)> {
    let gone = || std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the relay has ended");
    let (sender, incoming) = mpsc::unbounded_channel();
    let allowance = Arc::new(Semaphore::new(CREDIT));
    let credit = Arc::new(Semaphore::new(CREDIT));
    let number = {
        let mut table = streams.lock();
        if table.closed {
            return Err(gone());
        }
        // Numbers go round, so that late frames of a closed stream do not meet a new one.
        let number = (1..=u8::MAX)
            .map(|step| table.last.wrapping_add(step))
            .find(|number| *number != 0 && !table.open.contains_key(number))
            .ok_or_else(|| std::io::Error::other("all 255 streams of the relay are in use"))?;
        table.last = number;
        let entry = Entry { incoming: sender, allowance: Arc::clone(&allowance), credit: Arc::clone(&credit) };
        table.open.insert(number, entry);
        number
    };
    outgoing.send(Frame::open(number, channel.name())).await.map_err(|_| gone())?;
    let stream = Arc::new(OpenStream { number, streams: Arc::clone(streams), outgoing: outgoing.clone() });
    let reader = RelayReader { stream: Arc::clone(&stream), incoming, allowance, consumed: 0 };
    Ok((ChannelReader::Relay(reader), ChannelWriter::Relay(RelayWriter { stream, credit })))
}

/// Closes the stream when its last half is dropped.
#[derive(Debug)]
struct OpenStream {
    number: u8,
    streams: Arc<RelayStreams>,
    outgoing: mpsc::Sender<Frame>,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if self.streams.forget(self.number) {
            let outgoing = self.outgoing.clone();
            let frame = Frame::close(self.number);
            if let Err(mpsc::error::TrySendError::Full(close)) = outgoing.try_send(frame)
                && let Ok(runtime) = tokio::runtime::Handle::try_current()
            {
                runtime.spawn(async move { outgoing.send(close).await });
            }
        }
    }
}

/// What the kernel sends on a relayed channel.
#[derive(Debug)]
pub(crate) struct RelayReader {
    stream: Arc<OpenStream>,
    incoming: mpsc::UnboundedReceiver<Bytes>,
    allowance: Arc<Semaphore>,
    consumed: usize,
}

impl RelayReader {
    /// The next bytes; none at the end. The credit for them is given back.
    pub(super) async fn chunk(&mut self) -> Option<Bytes> {
        let chunk = self.incoming.recv().await?;
        self.consumed += chunk.len();
        if self.consumed >= CREDIT_STEP {
            let returned = std::mem::take(&mut self.consumed);
            self.allowance.add_permits(returned);
            let frame = Frame::credit(self.stream.number, u32::try_from(returned).unwrap_or(u32::MAX));
            self.stream.outgoing.send(frame).await.ok()?;
        }
        Some(chunk)
    }
}

/// What the host sends on a relayed channel.
#[derive(Debug)]
pub(crate) struct RelayWriter {
    stream: Arc<OpenStream>,
    credit: Arc<Semaphore>,
}

impl RelayWriter {
    /// Sends all of it, as fast as credit allows.
    pub(super) async fn write_all(&mut self, mut bytes: Bytes) -> std::io::Result<()> {
        let gone = || std::io::Error::new(std::io::ErrorKind::BrokenPipe, "the channel has ended");
        while !bytes.is_empty() {
            let part = bytes.split_to(bytes.len().min(64 * 1024));
            let permits = u32::try_from(part.len()).unwrap_or(u32::MAX);
            self.credit.acquire_many(permits).await.map_err(|_| gone())?.forget();
            self.stream.outgoing.send(Frame::data(self.stream.number, part)).await.map_err(|_| gone())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_of_no_bytes_wait_in_no_queue() {
        let streams = Arc::<RelayStreams>::default();
        let (outgoing, _sent) = mpsc::channel(1);
        let opened = open_relay_stream(&streams, &outgoing, Channel::Iopub).await.unwrap();
        let (ChannelReader::Relay(reader), _writer) = opened else { panic!("a relayed channel") };
        for _ in 0..1000 {
            streams.receive(Frame::data(reader.stream.number, Bytes::new())).unwrap();
        }
        assert_eq!(reader.incoming.len(), 0);
        streams.receive(Frame::data(reader.stream.number, &b"x"[..])).unwrap();
        assert_eq!(reader.incoming.len(), 1);
    }
}
