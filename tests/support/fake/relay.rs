//! `bridge relay`: the control connection and the channels in one pair of streams.

use std::collections::HashMap;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf};
use tokio::sync::{Semaphore, mpsc, watch};

use super::container::Container;
use super::hostile::RelayFault;
use super::zmtp;

const DATA: u8 = 0;
const OPEN: u8 = 1;
const CLOSE: u8 = 2;
const CREDIT: u8 = 3;

const START_CREDIT: usize = 1 << 20;
const LONGEST: usize = 1 << 20;
const CHUNK: usize = 64 * 1024;

/// One frame.
pub(crate) fn frame(stream: u8, kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![stream, kind];
    frame.extend(u32::try_from(payload.len()).expect("a payload of a frame").to_be_bytes());
    frame.extend(payload);
    frame
}

struct Stream {
    /// To the kernel, by a task that gives credit back for what it could write.
    to_kernel: mpsc::UnboundedSender<Vec<u8>>,
    /// Bytes that the host may still send.
    allowance: Arc<Semaphore>,
    /// Bytes that we may still send.
    credit: Arc<Semaphore>,
    _from_kernel: AbortOnDrop,
}

/// Runs until stdin, stdout or the container ends. The result is the exit code.
pub(super) async fn run(container: Arc<Container>, stdin: DuplexStream, stdout: DuplexStream) -> i64 {
    static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
    let connection = CONNECTIONS.fetch_add(1, Ordering::SeqCst);
    let (outgoing, queue) = mpsc::channel(16);
    let mut writing = tokio::spawn(zmtp::write_queue(stdout, queue));
    let code = tokio::select! {
        relayed = relay(&container, connection, stdin, outgoing) => {
            if let Err(error) = relayed && error.kind() == ErrorKind::InvalidData {
                container.violated(error.to_string());
            }
            0
        }
        _ = &mut writing => 1,
        () = container.link_lost() => 137,
        _ = container.exited() => 137,
    };
    container.disconnected(connection);
    // What was answered last is still written, to a host that reads.
    let _ = writing.await;
    code
}

async fn relay(
    container: &Arc<Container>,
    connection: u64,
    mut stdin: DuplexStream,
    outgoing: mpsc::Sender<Vec<u8>>,
) -> Result<()> {
    let (events, mut to_tell) = mpsc::unbounded_channel::<Value>();
    let mut streams: HashMap<u8, Stream> = HashMap::new();
    let mut faults: Option<watch::Receiver<Option<RelayFault>>> = None;
    let (ended, mut ends) = mpsc::unbounded_channel::<u8>();
    let (frames, mut incoming) = mpsc::channel(1);
    let reading = tokio::spawn(async move {
        loop {
            let frame = read_frame(&mut stdin).await;
            let last = frame.is_err();
            if frames.send(frame).await.is_err() || last {
                return;
            }
        }
    });
    let _reading = AbortOnDrop(reading);
    loop {
        tokio::select! {
            Some(event) = to_tell.recv() => send(&outgoing, frame(0, DATA, event.to_string().as_bytes())).await?,
            Some(stream) = ends.recv() => {
                if streams.remove(&stream).is_some() {
                    send(&outgoing, frame(stream, CLOSE, b"")).await?;
                }
            }
            Some(fault) = fault_of(&mut faults) => {
                faults = None;
                commit(fault, &streams, &outgoing).await?;
            }
            incoming = incoming.recv() => {
                let (stream, kind, payload) = match incoming {
                    Some(Ok(frame)) => frame,
                    Some(Err(error)) if error.kind() == ErrorKind::InvalidData => return Err(error),
                    Some(Err(_)) | None => return Ok(()),
                };
                if stream == 0 {
                    let message = serde_json::from_slice(&payload).map_err(|_| invalid("a control message that is no JSON"))?;
                    let closes = container.control(connection, &events, &message).await;
                    while let Ok(event) = to_tell.try_recv() {
                        send(&outgoing, frame(0, DATA, event.to_string().as_bytes())).await?;
                    }
                    if closes {
                        if message["type"] == "shutdown" {
                            container.exit(Some(0));
                        }
                        return Ok(());
                    }
                    continue;
                }
                match kind {
                    OPEN => {
                        let channel = String::from_utf8(payload).map_err(|_| invalid("the name of a channel"))?;
                        if streams.contains_key(&stream) {
                            return Err(invalid("an OPEN of an open stream"));
                        }
                        if !["shell", "stdin", "control", "iopub", "hb"].contains(&channel.as_str()) {
                            return Err(invalid("an unknown channel"));
                        }
                        match container.kernel() {
                            Some(kernel) => {
                                faults.get_or_insert_with(|| kernel.relay_faults());
                                let (ours, theirs) = tokio::io::duplex(CHUNK);
                                tokio::spawn(kernel.serve(channel, theirs));
                                streams.insert(stream, open(stream, ours, &outgoing, &ended));
                            }
                            None => send(&outgoing, frame(stream, CLOSE, b"no kernel runs")).await?,
                        }
                    }
                    // Frames may be on their way when the other side closes.
                    DATA => if let Some(stream) = streams.get(&stream) {
                        let len = u32::try_from(payload.len()).expect("a payload of a frame");
                        stream.allowance.try_acquire_many(len).map_err(|_| invalid("bytes past the credit"))?.forget();
                        let _ = stream.to_kernel.send(payload);
                    },
                    CLOSE => drop(streams.remove(&stream)),
                    CREDIT => {
                        let bytes = payload.as_slice().try_into().map_err(|_| invalid("credit of another length"))?;
                        if let Some(stream) = streams.get(&stream) {
                            stream.credit.add_permits(usize::try_from(u32::from_be_bytes(bytes)).expect("32 bits"));
                        }
                    }
                    _ => return Err(invalid("an unknown kind of frame")),
                }
            }
        }
    }
}

fn open(number: u8, ours: DuplexStream, outgoing: &mpsc::Sender<Vec<u8>>, ended: &mpsc::UnboundedSender<u8>) -> Stream {
    let (reader, mut writer) = tokio::io::split(ours);
    let (to_kernel, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
    let allowance = Arc::new(Semaphore::new(START_CREDIT));
    let credit = Arc::new(Semaphore::new(START_CREDIT));
    let (returned, back) = (Arc::clone(&allowance), outgoing.clone());
    tokio::spawn(async move {
        while let Some(bytes) = queue.recv().await {
            if writer.write_all(&bytes).await.is_err() {
                return;
            }
            returned.add_permits(bytes.len());
            let len = u32::try_from(bytes.len()).expect("a payload of a frame");
            let _ = back.send(frame(number, CREDIT, &len.to_be_bytes())).await;
        }
        let _ = writer.shutdown().await;
    });
    let from_kernel = tokio::spawn(from_kernel(number, reader, Arc::clone(&credit), outgoing.clone(), ended.clone()));
    Stream { to_kernel, allowance, credit, _from_kernel: AbortOnDrop(from_kernel) }
}

async fn from_kernel(
    number: u8,
    mut reader: ReadHalf<DuplexStream>,
    credit: Arc<Semaphore>,
    outgoing: mpsc::Sender<Vec<u8>>,
    ended: mpsc::UnboundedSender<u8>,
) {
    let mut buffer = vec![0; CHUNK];
    loop {
        // Never more than there is credit for, and never none.
        let Ok(first) = credit.acquire().await else { break };
        first.forget();
        let more = credit.available_permits().min(CHUNK - 1);
        match reader.read(&mut buffer[..=more]).await {
            Ok(0) | Err(_) => break,
            Ok(read) => {
                credit.forget_permits(read - 1);
                if outgoing.send(frame(number, DATA, &buffer[..read])).await.is_err() {
                    break;
                }
            }
        }
    }
    let _ = ended.send(number);
}

/// The fault that is due; none if none can be.
async fn fault_of(faults: &mut Option<watch::Receiver<Option<RelayFault>>>) -> Option<RelayFault> {
    faults.as_mut()?.wait_for(Option::is_some).await.ok().and_then(|fault| *fault)
}

async fn commit(fault: RelayFault, streams: &HashMap<u8, Stream>, outgoing: &mpsc::Sender<Vec<u8>>) -> Result<()> {
    let megabyte = vec![0; LONGEST];
    match fault {
        RelayFault::PastCredit => {
            for stream in streams.keys() {
                for _ in 0..3 {
                    send(outgoing, frame(*stream, DATA, &megabyte)).await?;
                }
            }
        }
        RelayFault::LongFrame => send(outgoing, vec![1, DATA, 0xff, 0xff, 0xff, 0xff]).await?,
        RelayFault::UnknownKind => send(outgoing, frame(1, 200, b"")).await?,
        RelayFault::Garbage => send(outgoing, frame(0, DATA, b"\xff{")).await?,
        RelayFault::Flood => {
            let event = br#"{"type": "exit", "generation": 0}"#;
            for _ in 0..100 {
                send(outgoing, frame(0, DATA, event).repeat(1000)).await?;
            }
        }
        RelayFault::AbsurdCredit => {
            for stream in streams.keys() {
                send(outgoing, frame(*stream, CREDIT, &u32::MAX.to_be_bytes()).repeat(10)).await?;
            }
        }
        RelayFault::Killed => return Err(ErrorKind::BrokenPipe.into()),
    }
    Ok(())
}

async fn send(outgoing: &mpsc::Sender<Vec<u8>>, bytes: Vec<u8>) -> Result<()> {
    outgoing.send(bytes).await.map_err(|_| ErrorKind::BrokenPipe.into())
}

async fn read_frame(stdin: &mut DuplexStream) -> Result<(u8, u8, Vec<u8>)> {
    let stream = stdin.read_u8().await?;
    let kind = stdin.read_u8().await?;
    let len = usize::try_from(stdin.read_u32().await?).expect("32 bits");
    if len > LONGEST {
        return Err(invalid("a payload of more than 1 MiB"));
    }
    let mut payload = vec![0; len];
    stdin.read_exact(&mut payload).await?;
    Ok((stream, kind, payload))
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the host sent {what}"))
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
