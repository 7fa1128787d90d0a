use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::sync::oneshot::error::TryRecvError;
use tokio_util::codec::FramedRead;

use super::*;
use crate::transport::frame::FrameCodec;
use crate::transport::relay_link;
use futures_util::StreamExt as _;

/// A bridge over a relay, and the relay's stdin and stdout.
fn relayed() -> (Bridge, DuplexStream, DuplexStream) {
    let (stdin, theirs_in) = tokio::io::duplex(64);
    let (stdout, theirs_out) = tokio::io::duplex(64 * 1024);
    (Bridge::over(relay_link(stdin, stdout)), theirs_in, theirs_out)
}

#[tokio::test]
async fn a_forged_generation_without_a_next_one_is_an_error() {
    let mut bridge = Bridge::over(relay_link(tokio::io::sink(), tokio::io::empty()));
    let started = bridge.start(u64::MAX, Duration::from_secs(1)).await;
    assert!(matches!(started, Err(BridgeError::Unreadable(_))), "{started:?}");
}

#[tokio::test]
async fn a_deadline_is_not_lost_on_a_bridge_that_is_slow_to_read() {
    let (mut bridge, stdin, _stdout) = relayed();
    for ms in 0..1000 {
        bridge.deadline(Duration::from_millis(ms), Duration::ZERO);
    }
    let mut pong = bridge.ping();
    assert_eq!(pong.try_recv().err(), Some(TryRecvError::Empty), "a link that is slow has not gone");
    let told = FramedRead::new(stdin, FrameCodec).filter_map(async |frame| {
        let message: Value = serde_json::from_slice(&frame.expect("a frame").payload).expect("JSON");
        (message["type"] == "deadline").then(|| message["ms"].as_u64())
    });
    let told: Vec<_> = told.take(1000).collect().await;
    assert_eq!(told, (0..1000).map(Some).collect::<Vec<_>>());
}
