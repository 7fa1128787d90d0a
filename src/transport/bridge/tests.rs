use super::*;
use crate::transport::relay_link;

#[tokio::test]
async fn a_forged_generation_without_a_next_one_is_an_error() {
    let mut bridge = Bridge::over(relay_link(tokio::io::sink(), tokio::io::empty()));
    let started = bridge.start(u64::MAX, Duration::from_secs(1)).await;
    assert!(matches!(started, Err(BridgeError::Unreadable(_))), "{started:?}");
}
