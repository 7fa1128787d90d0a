//! What hostile code in the container does: to its sockets, to its kernel's greeting, to the relay.

use std::io::Result;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::kernel::{Request, Shared};
use super::zmtp;

/// How the sockets of new kernels greet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// As they should.
    #[default]
    Honest,
    /// A byte now and then, without end in sight.
    Slow,
    /// Never.
    Silent,
    /// In another protocol.
    Http,
    /// Of ZMTP 2.
    Old,
}

impl Greeting {
    pub(super) async fn write(self, writer: &mut (impl AsyncWrite + Unpin)) -> Result<()> {
        let mut greeting = zmtp::greeting();
        match self {
            Self::Honest => {}
            Self::Slow => {
                for byte in &greeting {
                    writer.write_all(&[*byte]).await?;
                    tokio::time::sleep(Duration::from_secs(5)).await;
                }
                return Ok(());
            }
            Self::Silent => return std::future::pending().await,
            Self::Http => greeting = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".repeat(2),
            Self::Old => greeting[10] = 1,
        }
        writer.write_all(&greeting).await
    }
}

/// What becomes of the relay, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelayFault {
    /// More bytes on every open stream than the host gave credit for.
    PastCredit,
    /// A frame that announces 4 GiB.
    LongFrame,
    /// A kind of frame that there is not.
    UnknownKind,
    /// A control message that is no JSON.
    Garbage,
    /// Control messages without end.
    Flood,
    /// Credit that overflows.
    AbsurdCredit,
    /// The relay process is killed.
    Killed,
}

/// Does what it is told, or says it, on IOPub, or on shell if that is the second word.
pub(super) async fn act(what: &str, shared: &Shared, request: &Request) {
    let (what, channel) = what.split_once(' ').unwrap_or((what, "iopub"));
    if let Some(fault) = what.strip_prefix("relay-") {
        shared.relay_faults.send_replace(relay_fault(fault));
        return;
    }
    if let Some(channel) = what.strip_prefix("close-") {
        shared.closed.send_replace(channel.to_owned());
        return;
    }
    let parent = &request.asked.header;
    let signed = |content: &[u8]| shared.wire.raw_message("stream", parent, content.to_vec());
    let honest = signed(json!({ "name": "stdout", "text": "forged\n" }).to_string().as_bytes());
    let bytes = match what {
        "huge-frame" => [&[2][..], &(1_u64 << 46).to_be_bytes()].concat(),
        "endless-multipart" => [1, 0].repeat(32 * 1024),
        "reserved-flags" => vec![0x80, 0],
        "command" => zmtp::frame(4, b"\x04PING\0\0"),
        "long-header" => zmtp::message(&with(&honest, 2, vec![b' '; 1 << 20])),
        "long-signature" => zmtp::message(&with(&honest, 1, vec![b'0'; 1 << 20])),
        "many-identities" => zmtp::message(&[vec![b"identity".to_vec(); 100], honest].concat()),
        "missing-frames" => zmtp::message(&honest[..4]),
        "no-delimiter" => zmtp::message(&honest[1..]),
        "bad-signature" => zmtp::message(&with(&honest, 1, vec![b'0'; 64])),
        "deep-json" => {
            let deep = format!("{{\"name\": \"stdout\", \"text\": {}", "[".repeat(100_000));
            [zmtp::message(&signed(deep.as_bytes())), deep_display(shared, parent)].concat()
        }
        "garbage-header" => {
            zmtp::message(&shared.wire.sealed([b"\xff\xfe".to_vec(), parent.clone(), b"{}".to_vec(), b"{}".to_vec()]))
        }
        "odd-json" => [
            &br#"{"name": "stdout", "text": "\ud800"}"#[..],
            br#"{"name": 7, "text": NaN}"#,
            b"{\"name\": \"stdout\", \"text\": \"\xff\"}",
            b"[]",
            b"",
        ]
        .iter()
        .flat_map(|content| zmtp::message(&signed(content)))
        .collect(),
        "replay" => zmtp::message(&honest).repeat(2),
        _ => Vec::new(),
    };
    let times = if what == "endless-multipart" { 200 } else { 1 };
    for _ in 0..times {
        match channel {
            "shell" => drop(request.reply.send(bytes.clone()).await),
            _ => shared.publish_raw(&bytes).await,
        }
    }
}

fn with(frames: &[Vec<u8>], at: usize, frame: Vec<u8>) -> Vec<Vec<u8>> {
    let mut frames = frames.to_vec();
    frames[at] = frame;
    frames
}

fn deep_display(shared: &Shared, parent: &[u8]) -> Vec<u8> {
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    let deep = format!("{{\"data\": {{\"application/json\": {open}{close}}}, \"metadata\": {{}}}}");
    zmtp::message(&shared.wire.raw_message("display_data", parent, deep.into_bytes()))
}

fn relay_fault(name: &str) -> Option<RelayFault> {
    match name {
        "past-credit" => Some(RelayFault::PastCredit),
        "long-frame" => Some(RelayFault::LongFrame),
        "unknown-kind" => Some(RelayFault::UnknownKind),
        "garbage" => Some(RelayFault::Garbage),
        "flood" => Some(RelayFault::Flood),
        "absurd-credit" => Some(RelayFault::AbsurdCredit),
        "killed" => Some(RelayFault::Killed),
        _ => None,
    }
}
