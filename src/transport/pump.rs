//! Carries one channel's bytes between a link and our ZeroMQ socket, with the guard on the way in.

use std::io::ErrorKind;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::Channel;
use super::guard::{Cut, Guard, Limits};
use super::relay::{RelayReader, RelayWriter};
use super::unread::Unread;

const CHUNK: usize = 64 * 1024;

/// How a channel ended.
#[derive(Debug)]
pub(crate) struct ChannelEnd {
    pub(crate) channel: Channel,
    /// Why the guard ended it; none if the kernel's side closed.
    pub(crate) cut: Option<Cut>,
}

/// The kernel's bytes of a channel.
#[derive(Debug)]
pub(crate) enum ChannelReader {
    Socket(OwnedReadHalf),
    Relay(RelayReader),
}

/// The way to the kernel.
#[derive(Debug)]
pub(crate) enum ChannelWriter {
    Socket(OwnedWriteHalf),
    Relay(RelayWriter),
}

impl ChannelReader {
    pub(super) async fn chunk(&mut self) -> std::io::Result<Option<Bytes>> {
        match self {
            Self::Socket(half) => read_chunk(half).await,
            Self::Relay(reader) => Ok(reader.chunk().await),
        }
    }
}

impl ChannelWriter {
    pub(super) async fn write_all(&mut self, bytes: Bytes) -> std::io::Result<()> {
        match self {
            Self::Socket(half) => half.write_all(&bytes).await,
            Self::Relay(writer) => writer.write_all(bytes).await,
        }
    }
}

/// Reads what there is. The buffer is made once bytes have come: an idle channel holds none.
async fn read_chunk(half: &OwnedReadHalf) -> std::io::Result<Option<Bytes>> {
    loop {
        half.readable().await?;
        let mut buffer = BytesMut::with_capacity(CHUNK);
        match half.try_read_buf(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(read) if read < CHUNK / 8 => return Ok(Some(Bytes::copy_from_slice(&buffer))),
            Ok(_) => return Ok(Some(buffer.freeze())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Runs until either side ends, then tells it. `local` is our ZeroMQ socket's end.
pub(super) async fn pump(
    channel: Channel,
    (mut reader, mut writer): (ChannelReader, ChannelWriter),
    local: UnixStream,
    ends: mpsc::UnboundedSender<ChannelEnd>,
    unread: Unread,
) {
    let (from_us, mut to_us) = local.into_split();
    let outbound = tokio::spawn(async move {
        while let Ok(Some(chunk)) = read_chunk(&from_us).await {
            let bytes = chunk.len();
            if writer.write_all(chunk).await.is_err() {
                break;
            }
            unread.taken(channel, bytes);
        }
    });
    let cut = tokio::select! {
        cut = inbound(&mut reader, &mut to_us) => cut,
        // Our socket was dropped, or the kernel no longer takes what we send.
        () = async { let _ = outbound.await; } => None,
    };
    let _ = ends.send(ChannelEnd { channel, cut });
}

async fn inbound(reader: &mut ChannelReader, to_us: &mut OwnedWriteHalf) -> Option<Cut> {
    let mut guard = Guard::new(Limits::default());
    let mut told = 0_u64;
    let mut passed = Vec::new();
    while let Ok(Some(chunk)) = reader.chunk().await {
        // Only the benchmark that measures the guard is built so (tests/bench/overhead.rs).
        let verdict = if cfg!(cellblock_unguarded) {
            passed.push(chunk);
            Ok(())
        } else {
            guard.push(chunk, &mut passed)
        };
        for bytes in passed.drain(..) {
            if to_us.write_all(&bytes).await.is_err() {
                return None;
            }
        }
        // At each doubling: a kernel that sends nothing else does not fill the log.
        if guard.elided().frames.checked_ilog2() != told.checked_ilog2() {
            let elided = guard.elided();
            told = elided.frames;
            tracing::warn!(
                frames = elided.frames,
                bytes = elided.bytes,
                "frames of this channel were too long and left out"
            );
        }
        if let Err(cut) = verdict {
            return Some(cut);
        }
    }
    None
}
