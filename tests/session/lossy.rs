//! An engine around another, whose relay loses one message of the kernel's on its way to the host.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellblock::{ContainerId, ContainerSpec, ContainerSummary, Engine, Error, Exec, Exit};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The link's kinds of frames that matter here.
const DATA: u8 = 0;
const OPEN: u8 = 1;

/// A half of a cell's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Reply,
    Idle,
}

impl Half {
    fn channel(self) -> &'static str {
        match self {
            Self::Reply => "shell",
            Self::Idle => "iopub",
        }
    }

    /// Whether a message is it.
    fn is(self, frames: &[&[u8]]) -> bool {
        let Some(at) = frames.iter().position(|frame| *frame == b"<IDS|MSG>") else { return false };
        let part = |number: usize| -> Value {
            frames.get(at + number).and_then(|part| serde_json::from_slice(part).ok()).unwrap_or_default()
        };
        let (header, parent, content) = (part(2), part(3), part(5));
        match self {
            Self::Reply => header["msg_type"] == "execute_reply",
            Self::Idle => content["execution_state"] == "idle" && parent["msg_type"] == "execute_request",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Lossy {
    inner: Arc<dyn Engine>,
    loses: Arc<Mutex<Option<Half>>>,
}

impl Lossy {
    pub(crate) fn new(inner: Arc<dyn Engine>) -> Arc<Self> {
        Arc::new(Self { inner, loses: Arc::default() })
    }

    /// Loses this of the next cell that ends.
    pub(crate) fn lose(&self, half: Half) {
        *lock(&self.loses) = Some(half);
    }

    /// Whether it is still to be lost.
    pub(crate) fn is_to_lose(&self) -> bool {
        lock(&self.loses).is_some()
    }

    /// Puts itself between the host and its relay.
    fn between(&self, relay: Exec) -> Exec {
        let Exec { stdin, stdout, end, .. } = relay;
        let (to_host, from_relay) = tokio::io::duplex(64 << 10);
        let (to_relay, from_host) = tokio::io::duplex(64 << 10);
        let channels = Arc::new(Mutex::new(HashMap::new()));
        tokio::spawn(forward(from_host, stdin, Arc::clone(&channels)));
        tokio::spawn(backward(stdout, to_host, channels, Arc::clone(&self.loses)));
        Exec::new(to_relay, from_relay, end)
    }
}

/// The name of each stream's channel.
type Channels = Arc<Mutex<HashMap<u8, String>>>;

/// Passes on what the host sends, and learns which stream is which channel.
async fn forward(
    mut host: impl AsyncRead + Unpin,
    mut relay: impl AsyncWrite + Unpin,
    channels: Channels,
) -> io::Result<()> {
    while let Some((stream, kind, payload)) = read_frame(&mut host).await? {
        if kind == OPEN {
            lock(&channels).insert(stream, String::from_utf8_lossy(&payload).into_owned());
        }
        write_frame(&mut relay, stream, kind, &payload).await?;
    }
    relay.shutdown().await
}

/// Passes on what the kernel sends but for the message that is to be lost.
async fn backward(
    mut relay: impl AsyncRead + Unpin,
    mut host: impl AsyncWrite + Unpin,
    channels: Channels,
    loses: Arc<Mutex<Option<Half>>>,
) -> io::Result<()> {
    let mut sieves: HashMap<u8, Sieve> = HashMap::new();
    while let Some((stream, kind, mut payload)) = read_frame(&mut relay).await? {
        let channel = lock(&channels).get(&stream).cloned();
        if kind == OPEN || channel.is_none() {
            sieves.remove(&stream);
        } else if kind == DATA {
            payload = sieves.entry(stream).or_default().sift(&payload, |message| {
                let mut loses = lock(&loses);
                let lost = loses.filter(|half| channel.as_deref() == Some(half.channel()) && half.is(message));
                loses.take_if(|_| lost.is_some()).is_some()
            });
            if payload.is_empty() {
                continue;
            }
        }
        write_frame(&mut host, stream, kind, &payload).await?;
    }
    host.shutdown().await
}

/// A channel's bytes, which it lets through as whole messages of ZMTP.
#[derive(Debug, Default)]
struct Sieve {
    greeted: bool,
    held: Vec<u8>,
}

impl Sieve {
    /// What may go on now. The messages here are far shorter than the relay's credit, so that they can be held.
    fn sift(&mut self, bytes: &[u8], mut is_lost: impl FnMut(&[&[u8]]) -> bool) -> Vec<u8> {
        const GREETING: usize = 64;
        self.held.extend(bytes);
        let mut passed = Vec::new();
        if !self.greeted && self.held.len() >= GREETING {
            passed.extend(self.held.drain(..GREETING));
            self.greeted = true;
        }
        while self.greeted
            && let Some((length, frames)) = message(&self.held)
        {
            let lost = is_lost(&frames);
            let message = self.held.drain(..length);
            if !lost {
                passed.extend(message);
            }
        }
        passed
    }
}

/// The length and the frames of the message, or command, that is first in these bytes.
fn message(bytes: &[u8]) -> Option<(usize, Vec<&[u8]>)> {
    let (mut rest, mut frames) = (bytes, Vec::new());
    loop {
        let (&flags, after) = rest.split_first()?;
        let (length, after) = if flags & 2 == 0 {
            let (&length, after) = after.split_first()?;
            (u64::from(length), after)
        } else {
            let (length, after) = after.split_first_chunk()?;
            (u64::from_be_bytes(*length), after)
        };
        let (body, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
        frames.push(body);
        rest = after;
        if flags & 1 == 0 {
            return Some((bytes.len() - rest.len(), frames));
        }
    }
}

async fn read_frame(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<(u8, u8, Vec<u8>)>> {
    let Ok(stream) = reader.read_u8().await else { return Ok(None) };
    let kind = reader.read_u8().await?;
    let mut payload = vec![0; reader.read_u32().await? as usize];
    reader.read_exact(&mut payload).await?;
    Ok(Some((stream, kind, payload)))
}

async fn write_frame(writer: &mut (impl AsyncWrite + Unpin), stream: u8, kind: u8, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).expect("a payload that was a frame's");
    writer.write_all(&[&[stream, kind][..], &length.to_be_bytes(), payload].concat()).await?;
    writer.flush().await
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine for Lossy {
    fn create<'a>(&'a self, spec: &'a ContainerSpec) -> BoxFuture<'a, Result<ContainerId, Error>> {
        self.inner.create(spec)
    }

    fn start<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.inner.start(id)
    }

    fn wait<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Exit, Error>> {
        self.inner.wait(id)
    }

    fn exec<'a>(&'a self, id: &'a ContainerId, argv: &'a [&'a str]) -> BoxFuture<'a, Result<Exec, Error>> {
        async move {
            let exec = self.inner.exec(id, argv).await?;
            Ok(if argv.ends_with(&["relay"]) { self.between(exec) } else { exec })
        }
        .boxed()
    }

    fn kill<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.inner.kill(id)
    }

    fn remove<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.inner.remove(id)
    }

    fn list<'a>(&'a self, labels: &'a [(&'a str, &'a str)]) -> BoxFuture<'a, Result<Vec<ContainerSummary>, Error>> {
        self.inner.list(labels)
    }

    fn pid<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        self.inner.pid(id)
    }

    fn identity(&self) -> BoxFuture<'_, Option<String>> {
        self.inner.identity()
    }

    fn mounts_host_directories(&self) -> bool {
        self.inner.mounts_host_directories()
    }
}
