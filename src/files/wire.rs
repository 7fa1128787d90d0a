//! The conversation with `bridge files`: messages and the content of files, as frames. What comes may be forged.

use std::io::{ErrorKind, IoSlice};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::entry::{FileEntry, FileKind, time};
use super::failure::Failure;
use super::names::{WorkPath, is_below};
use crate::Error;
use crate::engine::{Exec, ExecEnd, Programs};
use crate::transport::{FrameKind, HEADER, ProgramSocket, read_header, write_header};

const MESSAGES: u8 = 0;
const CONTENT: u8 = 1;
const MESSAGE_LIMIT: usize = 64 * 1024;
/// The content of files is moved in such pieces.
pub(super) const CHUNK: usize = 256 * 1024;
/// A container that neither takes nor gives a byte for so long is given up.
const STALL: Duration = Duration::from_secs(60);
/// How long the removal of a tree may take, which says nothing until it is done.
const REMOVAL: Duration = Duration::from_secs(600);

#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    op: &'static str,
    path: &'a str,
    tree: bool,
    max_entries: u64,
    max_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temporary: Option<&'a str>,
    /// Whether there may be so much to move that it is worth a connection of its own.
    #[serde(skip)]
    large: bool,
}

impl<'a> Request<'a> {
    pub(super) fn new(op: &'static str, path: &'a WorkPath) -> Self {
        // Of what it sends the bridge knows the size.
        let large = op == "get";
        Self { op, path: path.as_str(), tree: false, max_entries: 0, max_bytes: 0, temporary: None, large }
    }

    /// An upload of so many bytes, if that is known, which has this name until it is whole.
    pub(super) fn put(path: &'a WorkPath, temporary: &'a str, size: Option<u64>) -> Self {
        let large = size.is_none_or(|size| size >= CHUNK as u64);
        Self { temporary: Some(temporary), large, ..Self::new("put", path) }
    }

    pub(super) fn tree(mut self, tree: bool) -> Self {
        self.tree = tree;
        self
    }

    pub(super) fn limits(mut self, max_entries: u64, max_bytes: u64) -> Self {
        (self.max_entries, self.max_bytes) = (max_entries, max_bytes);
        self
    }
}

/// What we say during an upload.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Said<'a> {
    Entry { path: &'a str, kind: &'static str, executable: bool },
    End,
}

/// What the bridge says.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Heard {
    Entry(Told),
    Skipped { path: String, reason: String },
    Done,
    Refused { code: String, text: String },
    Dialled { token: String },
    NotDialled { text: String },
}

/// An entry as the bridge tells of it: its path is relative to the one that was asked for.
#[derive(Debug, Deserialize)]
pub(super) struct Told {
    pub(super) path: String,
    kind: ToldKind,
    pub(super) size: u64,
    pub(super) mode: u32,
    modified_ns: i64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToldKind {
    File,
    Directory,
    Symlink,
    Other,
}

impl Told {
    pub(super) fn kind(&self) -> FileKind {
        match self.kind {
            ToldKind::File => FileKind::File,
            ToldKind::Directory => FileKind::Directory,
            ToldKind::Symlink => FileKind::Symlink,
            ToldKind::Other => FileKind::Other,
        }
    }

    /// As a caller sees it.
    pub(super) fn entry(&self, asked: &WorkPath) -> Result<FileEntry, Failure> {
        if !self.path.is_empty() && !is_below(&self.path) {
            return Err(Failure::Broken("a path that leads elsewhere"));
        }
        Ok(FileEntry {
            path: asked.join(&self.path),
            kind: self.kind(),
            size: self.size,
            modified: time(self.modified_ns),
            mode: self.mode & 0o7777,
        })
    }
}

/// Asks the bridge for something.
pub(super) async fn ask(programs: &Programs, request: &Request<'_>) -> Result<(Sender, Receiver), Failure> {
    let socket = if request.large { programs.socket() } else { None };
    let name = socket.as_ref().map(ProgramSocket::name);
    let args: Vec<_> = ["files"].into_iter().chain(name.into_iter().flat_map(|name| ["--socket", name])).collect();
    let started = timeout(STALL, programs.start(&args)).await.map_err(|_| stalled())?;
    let (mut sender, receiver) = converse(started.map_err(Failure::Start)?);
    let receiver = if request.op == "remove" { Receiver { patience: REMOVAL, ..receiver } } else { receiver };
    // A bridge that ends at once has more to say about it than its closed stdin.
    match sender.say(request).await {
        Ok(()) | Err(Failure::Io(_)) => {}
        Err(failure) => return Err(failure),
    }
    match socket {
        Some(socket) => move_to(socket, sender, receiver).await,
        None => Ok((sender, receiver)),
    }
}

pub(super) fn converse(exec: Exec) -> (Sender, Receiver) {
    (Sender(exec.stdin), Receiver::new(exec.stdout, exec.end))
}

/// Goes on over the socket, if the bridge has dialled it.
async fn move_to(socket: ProgramSocket, sender: Sender, mut receiver: Receiver) -> Result<(Sender, Receiver), Failure> {
    let token = match receiver.hear().await? {
        Heard::Dialled { token } => token,
        Heard::NotDialled { text } => {
            tracing::debug!(text, "the content of files goes through the engine");
            return Ok((sender, receiver));
        }
        _ => return Err(Failure::Broken("a word about its connection was expected")),
    };
    let connection = socket.take(&token).map_err(|_| Failure::Broken("a connection that is not there"))?;
    let (incoming, outgoing) = connection.into_split();
    let end = receiver.end_of_exec(sender);
    Ok((Sender(Box::new(outgoing)), Receiver::new(Box::new(incoming), end)))
}

fn stalled() -> Failure {
    Failure::Stalled(STALL.as_secs())
}

/// Our side. Dropped before its end it makes the bridge undo what is not whole.
pub(super) struct Sender(Box<dyn AsyncWrite + Send + Unpin>);

impl Sender {
    async fn say(&mut self, message: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_vec(message).map_err(|_| Failure::Broken("a message that cannot be written"))?;
        self.frame(MESSAGES, FrameKind::Data, &text).await
    }

    pub(super) async fn directory(&mut self, path: &str) -> Result<(), Failure> {
        self.say(&Said::Entry { path, kind: "directory", executable: false }).await
    }

    /// Its content follows, and [`end_content`](Self::end_content).
    pub(super) async fn file(&mut self, path: &str, executable: bool) -> Result<(), Failure> {
        self.say(&Said::Entry { path, kind: "file", executable }).await
    }

    pub(super) async fn content(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for chunk in bytes.chunks(CHUNK) {
            self.frame(CONTENT, FrameKind::Data, chunk).await?;
        }
        Ok(())
    }

    pub(super) async fn end_content(&mut self) -> Result<(), Failure> {
        self.frame(CONTENT, FrameKind::Close, b"").await
    }

    /// All is sent.
    pub(super) async fn end(&mut self) -> Result<(), Failure> {
        self.say(&Said::End).await
    }

    /// Nothing more comes.
    pub(super) async fn give_up(&mut self) {
        let _ = timeout(STALL, self.0.shutdown()).await;
    }

    async fn frame(&mut self, stream: u8, kind: FrameKind, payload: &[u8]) -> Result<(), Failure> {
        let header = write_header(stream, kind, payload.len())?;
        let (mut header, mut payload) = (header.as_slice(), payload);
        while !(header.is_empty() && payload.is_empty()) {
            let slices = [IoSlice::new(header), IoSlice::new(payload)];
            let slices = slices.get(usize::from(header.is_empty())..).unwrap_or_default();
            let written = timeout(STALL, self.0.write_vectored(slices)).await.map_err(|_| stalled())??;
            if written == 0 {
                return Err(Failure::Io(ErrorKind::WriteZero.into()));
            }
            let of_header = written.min(header.len());
            header = header.get(of_header..).unwrap_or_default();
            payload = payload.get(written - of_header..).unwrap_or_default();
        }
        self.0.flush().await?;
        Ok(())
    }
}

/// The bridge's side.
pub(super) struct Receiver {
    incoming: Box<dyn AsyncRead + Send + Unpin>,
    end: Option<BoxFuture<'static, Result<ExecEnd, Error>>>,
    buffer: Box<[u8]>,
    start: usize,
    filled: usize,
    /// Of the current piece of content.
    left: usize,
    patience: Duration,
}

impl Receiver {
    fn new(incoming: Box<dyn AsyncRead + Send + Unpin>, end: BoxFuture<'static, Result<ExecEnd, Error>>) -> Self {
        Self {
            incoming,
            end: Some(end),
            buffer: vec![0; CHUNK].into_boxed_slice(),
            start: 0,
            filled: 0,
            left: 0,
            patience: STALL,
        }
    }

    /// How the program ends, for whoever talks to it elsewhere. Its pipes are kept until then.
    fn end_of_exec(mut self, sender: Sender) -> BoxFuture<'static, Result<ExecEnd, Error>> {
        async move {
            let _stdin = sender;
            // The engine tells of the end after all that the program says.
            while self.incoming.read(&mut self.buffer).await.is_ok_and(|read| read > 0) {}
            match self.end {
                Some(end) => end.await,
                None => Ok(ExecEnd { code: None, stderr: Vec::new() }),
            }
        }
        .boxed()
    }

    /// The next message.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn hear(&mut self) -> Result<Heard, Failure> {
        let patience = self.patience;
        // For all of it: what trickles does not move.
        timeout(patience, self.message()).await.map_err(|_| Failure::Stalled(patience.as_secs()))?
    }

    async fn message(&mut self) -> Result<Heard, Failure> {
        let (stream, kind, length) = self.header().await?;
        if (stream, kind) != (MESSAGES, FrameKind::Data) || length > MESSAGE_LIMIT {
            return Err(Failure::Broken("a message was expected"));
        }
        let frame = self.at_least(HEADER + length).await?;
        let message = serde_json::from_slice(frame.get(HEADER..).unwrap_or_default())
            .map_err(|_| Failure::Broken("a message that cannot be read"))?;
        self.start += HEADER + length;
        Ok(message)
    }

    /// The next piece of a file's content; none at its end.
    pub(super) async fn content(&mut self) -> Result<Option<&[u8]>, Failure> {
        if self.left == 0 {
            let (stream, kind, length) = self.header().await?;
            self.start += HEADER;
            match (stream, kind, length) {
                (CONTENT, FrameKind::Data, 1..) => self.left = length,
                (CONTENT, FrameKind::Close, 0) => return Ok(None),
                (CONTENT, FrameKind::Close, _) => {
                    return Err(Failure::Refused { code: "changed".to_owned(), text: String::new() });
                }
                _ => return Err(Failure::Broken("the content of a file was expected")),
            }
        }
        if self.start == self.filled {
            self.fill().await?;
        }
        let end = self.filled.min(self.start.saturating_add(self.left));
        let piece = self.buffer.get(self.start..end).unwrap_or_default();
        self.left -= piece.len();
        self.start = end;
        Ok(Some(piece))
    }

    /// From now on a message may take as long as our own side does, which is not the container's fault.
    pub(super) fn wait_for_ever(&mut self) {
        self.patience = Duration::MAX;
    }

    /// From now on the container is expected to move.
    pub(super) fn expect(&mut self) {
        self.patience = STALL;
    }

    /// Waits for the end that a bridge comes to when we give up; what it says until then does not matter.
    pub(super) async fn drain(&mut self) {
        let drained = async {
            while self.fill().await.is_ok() {
                self.start = self.filled;
            }
        };
        let _ = timeout(STALL, drained).await;
    }

    /// The header of the next frame, which is not taken yet.
    async fn header(&mut self) -> Result<(u8, FrameKind, usize), Failure> {
        let header = self.at_least(HEADER).await?.first_chunk().ok_or(Failure::Broken("a frame that is too short"))?;
        Ok(read_header(header)?)
    }

    async fn at_least(&mut self, count: usize) -> Result<&[u8], Failure> {
        while self.filled - self.start < count {
            self.fill().await?;
        }
        Ok(self.buffer.get(self.start..self.start + count).unwrap_or_default())
    }

    /// Reads once.
    async fn fill(&mut self) -> Result<(), Failure> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.filled, 0);
            self.filled -= self.start;
            self.start = 0;
        }
        let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let patience = self.patience;
        let read = timeout(patience, self.incoming.read(room)).await;
        let read = match read.map_err(|_| Failure::Stalled(patience.as_secs()))? {
            // How a socket ends whose other side has not read all.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            read => read?,
        };
        match read {
            0 => Err(Failure::Ended(match self.end.take() {
                Some(end) => timeout(STALL, end).await.map_err(|_| stalled())?.ok(),
                None => None,
            })),
            read => {
                self.filled += read;
                Ok(())
            }
        }
    }
}
