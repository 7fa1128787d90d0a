//! The socket link: sockets that the host made, in a directory that only their owner can enter. The fast path on a local engine.
//!
//! The container dials the one socket in the subdirectory that is mounted read-only. The kernel's channels are listeners in
//! the unmounted part, whose descriptors are passed to the bridge: no path of the container is resolved on the host, and no
//! descriptor is ever received from it.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BytesMut;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::codec::Encoder;

use super::Channel;
use super::frame::FrameCodec;
use super::link::{Link, Opener, Outgoing};
use super::pump::{ChannelReader, ChannelWriter};

/// Jupyter's five: shell, stdin, control, iopub, hb.
const LISTENERS: u8 = 5;

/// Where the host's listeners are.
#[derive(Debug)]
pub(crate) struct SocketDirectory {
    path: PathBuf,
}

impl SocketDirectory {
    fn listener_path(&self, generation: u64, number: u8) -> PathBuf {
        self.path.join(format!("k{generation}-{number}"))
    }

    pub(super) async fn connect(
        &self,
        channel: Channel,
        generation: u64,
    ) -> std::io::Result<(ChannelReader, ChannelWriter)> {
        let stream = UnixStream::connect(self.listener_path(generation, channel.number())).await?;
        let (reader, writer) = stream.into_split();
        Ok((ChannelReader::Socket(reader), ChannelWriter::Socket(writer)))
    }

    /// Makes the five listeners of a generation. They serve whoever the kernel is that gets their descriptors; we keep none.
    pub(super) fn listen(&self, generation: u64) -> std::io::Result<Vec<OwnedFd>> {
        (1..=LISTENERS)
            .map(|number| {
                let path = self.listener_path(generation, number);
                remove_if_there(&path)?;
                Ok(OwnedFd::from(std::os::unix::net::UnixListener::bind(&path)?))
            })
            .collect()
    }

    /// Removes the paths of an ended generation.
    pub(super) fn forget(&self, generation: u64) {
        for number in 1..=LISTENERS {
            let _ = std::fs::remove_file(self.listener_path(generation, number));
        }
    }
}

/// Waits for the bridge to dial.
#[derive(Debug)]
pub(crate) struct SocketListener {
    listener: UnixListener,
    directory: Arc<SocketDirectory>,
}

impl SocketListener {
    /// Listens on `bridge.sock` in `mounted`, for a session whose own listeners go to `private`.
    pub(crate) fn bind(mounted: &Path, private: &Path) -> std::io::Result<Self> {
        let path = mounted.join("bridge.sock");
        remove_if_there(&path)?;
        let listener = UnixListener::bind(&path)?;
        // The container's user need not be ours; who may connect is decided by the peer's pid.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
        Ok(Self { listener, directory: Arc::new(SocketDirectory { path: private.to_owned() }) })
    }

    /// Accepts the process with this pid and no other, and makes a link of it.
    ///
    /// # Cancel safety
    ///
    /// A connection is either still waiting or returned.
    pub(crate) async fn accept(&self, pid: u32) -> std::io::Result<Link> {
        let mut strangers = 0_u64;
        loop {
            let (stream, _) = self.listener.accept().await?;
            let peer = stream.peer_cred()?.pid();
            if peer.and_then(|peer| u32::try_from(peer).ok()) == Some(pid) {
                return Ok(socket_link(stream, Arc::clone(&self.directory)));
            }
            strangers += 1;
            if strangers.is_power_of_two() {
                tracing::warn!(
                    strangers,
                    ?peer,
                    expected = pid,
                    "processes that are not the bridge dialled its socket"
                );
            }
        }
    }
}

fn socket_link(stream: UnixStream, directory: Arc<SocketDirectory>) -> Link {
    let (reader, writer) = stream.into_split();
    let (outgoing, queue) = mpsc::unbounded_channel();
    tokio::spawn(write_frames(writer, queue));
    Link::new(reader, outgoing, Opener::Socket(directory))
}

async fn write_frames(mut writer: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Outgoing>) {
    let mut buffer = BytesMut::new();
    while let Some(Outgoing { frame, descriptors }) = queue.recv().await {
        if let Err(error) = FrameCodec.encode(&frame, &mut buffer) {
            tracing::error!(%error, "a frame could not be written");
            return;
        }
        let sent = if descriptors.is_empty() {
            writer.write_all(&buffer).await
        } else {
            send_with_descriptors(&mut writer, &buffer, &descriptors).await
        };
        if sent.is_err() {
            return;
        }
        buffer.clear();
    }
}

/// Sends the bytes with the descriptors attached to the first of them.
async fn send_with_descriptors(
    writer: &mut OwnedWriteHalf,
    bytes: &[u8],
    descriptors: &[OwnedFd],
) -> std::io::Result<()> {
    let stream: &UnixStream = writer.as_ref();
    let sent = stream
        .async_io(Interest::WRITABLE, || {
            let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LISTENERS as usize))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&borrowed));
            Ok(rustix::net::sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?)
        })
        .await?;
    writer.write_all(bytes.get(sent..).unwrap_or_default()).await
}

fn remove_if_there(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
