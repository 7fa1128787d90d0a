//! What must hold of the guard, of a link and of a recording for any bytes whatever.

#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a property that does not hold ends the fuzzer"
)]

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_util::codec::Decoder as _;

use super::Channel;
use super::bridge::{Bridge, BridgeEvent};
use super::frame::{Frame, FrameCodec, MAX_PAYLOAD};
use super::guard::{Cut, Guard, Limits};
use super::recording::{Page, Reassembly};
use super::relay::relay_link;
use super::zmtp::{self, PartialHeader};

/// Limits that short inputs reach.
const SMALL: Limits = Limits {
    identity: 12,
    identities: 2,
    signature: 8,
    header: 16,
    metadata: 8,
    content: 20,
    message: 48,
    frames: 9,
    command: 40,
};

/// The bytes of a channel. The first one says how they come: whether after a handshake, under which limits, in which pieces.
pub fn guard(data: &[u8]) {
    let Some((how, bytes)) = data.split_first() else { return };
    let mut wire = Vec::new();
    if how & 1 == 0 {
        wire.extend_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1]);
        wire.extend_from_slice(b"NULL");
        wire.resize(zmtp::GREETING, 0);
        wire.extend_from_slice(b"\x04\x06\x05READY");
    }
    wire.extend_from_slice(bytes);
    let limits = if how & 2 == 0 { SMALL } else { Limits::default() };
    let whole = guarded(&wire, limits, wire.len());
    assert_eq!(whole, guarded(&wire, limits, usize::from(how >> 2)), "pieces make a difference");
    let (out, _) = whole;
    assert!(out.len() <= wire.len(), "more goes on than came");
    passes(&out, &limits);
}

fn guarded(wire: &[u8], limits: Limits, piece: usize) -> (Vec<u8>, Option<Cut>) {
    let mut guard = Guard::new(limits);
    let mut out = Vec::new();
    let mut cut = None;
    for chunk in wire.chunks(piece.max(1)) {
        cut = guard.push(Bytes::copy_from_slice(chunk), &mut out).err();
        if cut.is_some() {
            let passed = out.len();
            assert_eq!(guard.push(Bytes::from_static(b"more"), &mut out).err(), cut);
            assert_eq!(out.len(), passed, "something goes on after a cut");
            break;
        }
    }
    (out.concat(), cut)
}

/// What goes on to ZeroMQ is what it can bear.
fn passes(out: &[u8], limits: &Limits) {
    let Some((greeting, mut rest)) = out.split_at_checked(zmtp::GREETING) else { return };
    assert!(greeting.iter().enumerate().all(|(at, byte)| zmtp::greets(at, *byte)));
    let (mut number, mut frames, mut bytes) = (0_u64, 0, 0);
    let longest = [limits.identity, limits.signature, limits.header, limits.metadata, limits.content].into_iter().max();
    loop {
        let mut partial = PartialHeader::default();
        let Some(at) = rest.iter().position(|byte| partial.push(*byte).is_some()) else { return };
        let mut partial = PartialHeader::default();
        let header = rest.iter().find_map(|byte| partial.push(*byte)).unwrap();
        assert!(!header.reserved && header.command == (number == 0), "{header:?}");
        assert!(header.len <= if header.command { limits.command } else { longest.unwrap() }, "{header:?}");
        if !header.command {
            (frames, bytes) = (frames + 1, bytes + header.len);
            assert!(frames <= limits.frames && bytes <= limits.message + 4 * longest.unwrap());
            if !header.more {
                (frames, bytes) = (0, 0);
            }
        }
        number += 1;
        let Some(body) = rest.get(at + 1..).filter(|rest| rest.len() as u64 >= header.len) else { return };
        rest = body.get(usize::try_from(header.len).unwrap()..).unwrap();
    }
}

/// The bytes of a link, in pieces that the first one decides: as frames, as a bridge's side of a conversation, as a recording.
pub fn link(data: &[u8]) {
    let Some((how, bytes)) = data.split_first() else { return };
    let piece = usize::from(*how);
    assert_eq!(decoded(bytes, bytes.len()), decoded(bytes, piece), "pieces make a difference");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(conversation(bytes.to_vec()));
    recording(*how, bytes);
}

fn decoded(bytes: &[u8], piece: usize) -> (Vec<Frame>, bool) {
    let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
    for chunk in bytes.chunks(piece.max(1)) {
        buffer.extend_from_slice(chunk);
        loop {
            match FrameCodec.decode(&mut buffer) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
        assert!(buffer.capacity() <= bytes.len() + 2 * (MAX_PAYLOAD + 8), "room is made for what only was announced");
    }
    (frames, false)
}

/// Asks a bridge all that there is to ask. That this comes to an end is what is to be seen.
async fn conversation(bytes: Vec<u8>) {
    const WAIT: Duration = Duration::from_secs(1);
    let (host, bridge) = tokio::io::duplex(1 << 16);
    tokio::spawn(answer(bridge, bytes));
    let (reader, writer) = tokio::io::split(host);
    let mut bridge = Bridge::over(relay_link(writer, reader));
    let Ok(hello) = bridge.greet_as_watcher(WAIT).await else { return };
    let ended = hello.last_exit.map_or(0, |exit| exit.generation);
    let before = hello.kernel.map_or(ended, |kernel| kernel.generation);
    if let Some(cell) = hello.cell {
        let _ = (cell.time_left(), cell.is_running(), cell.was_interrupted());
        let _ = bridge.recording(cell.number, WAIT).await;
    }
    if let Ok(launched) = bridge.start(before, WAIT).await
        && let Ok((mut reader, mut writer)) = bridge.opener().clone().open(Channel::Shell, launched.generation).await
    {
        let _ = tokio::time::timeout(WAIT, writer.write_all(Bytes::from(vec![0; 3 << 20]))).await;
        while let Ok(Ok(Some(chunk))) = tokio::time::timeout(WAIT, reader.chunk()).await {
            assert!(chunk.len() <= MAX_PAYLOAD);
        }
        let _ = bridge.interrupt(launched.generation, "id").await;
    }
    let _ = bridge.settle(WAIT).await;
    while let Ok(event) = tokio::time::timeout(WAIT, bridge.event()).await {
        if matches!(event, BridgeEvent::Gone) {
            return;
        }
    }
}

/// Says the next frame, or what is there of it, whenever the host has said something; all that is left at the end.
async fn answer(mut stream: DuplexStream, bytes: Vec<u8>) {
    let mut rest = &*bytes;
    let mut heard = [0; 1 << 12];
    while stream.read(&mut heard).await.is_ok_and(|read| read > 0) {
        let length = rest.get(2..6).map_or(0, |length| u32::from_be_bytes(length.try_into().unwrap()));
        let (frame, after) = rest.split_at(rest.len().min(6 + length as usize));
        if frame.is_empty() || stream.write_all(frame).await.is_err() {
            return;
        }
        rest = after;
    }
}

/// Pages whose lengths, and gaps between, are in the bytes themselves.
fn recording(how: u8, bytes: &[u8]) {
    let mut reassembly = Reassembly::default();
    let (mut pushed, mut seen) = (0, 0);
    for chunk in bytes.chunks(usize::from(how).max(1)) {
        let gap = if how & 1 == 1 && chunk.first() == Some(&0xff) { u64::from(how) << (how % 60) } else { 0 };
        let from = reassembly.next().saturating_add(gap);
        let next = from.saturating_add(chunk.len() as u64);
        let page = json!({ "cell": 1, "from": from, "next": next, "total": next, "data": STANDARD.encode(chunk) });
        let page: Page = serde_json::from_value(page).expect("a page");
        pushed += chunk.len();
        let before = reassembly.next();
        match reassembly.push(&page) {
            Ok(messages) => {
                seen += messages.iter().flatten().map(Bytes::len).sum::<usize>();
                assert!(seen <= pushed && reassembly.next() >= before && reassembly.lost() <= reassembly.next());
            }
            Err(_) => return,
        }
    }
}
