//! A cell whose kernel says nothing: it may be busy, and then its bridge answers; or the container may be paused, which only the engine can tell.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::transport::{Bridge, BridgeError};

/// After a message of the cell, and after each look, nothing is asked for this long.
const SILENCE: Duration = Duration::from_secs(1);
/// A bridge that has not answered by then may be paused, or short of CPU: the engine is asked.
const ANSWER_WAIT: Duration = Duration::from_secs(1);

type Pong = oneshot::Receiver<Result<Bytes, BridgeError>>;

/// What is known about the silence of one cell.
pub(super) struct Silence {
    look: Option<BoxFuture<'static, Looked>>,
    looked: Instant,
    /// The answer that is still due. No further one is asked for: a bridge that cannot read gets one question in all.
    pong: Option<Pong>,
    paused: bool,
}

/// What a look has found.
pub(super) struct Looked {
    pong: Option<Pong>,
    /// The container's name, if the engine says that it is paused.
    paused: Option<String>,
}

impl Silence {
    pub(super) fn new() -> Self {
        Self { look: None, looked: Instant::now(), pong: None, paused: false }
    }

    /// When the next look is due; none while there is one.
    pub(super) fn next_look(&self, last_message: Instant) -> Option<Instant> {
        match self.look {
            Some(_) => None,
            None if self.paused => Some(self.looked),
            None => Some(self.looked.max(last_message) + SILENCE),
        }
    }

    /// Begins to ask the bridge for a sign of life, and if there is none, the engine. The end of a pause is told by the bridge alone.
    pub(super) fn look(&mut self, bridge: &mut Bridge, paused: BoxFuture<'static, Option<String>>) {
        let mut pong = self.pong.take().unwrap_or_else(|| bridge.ping());
        let known = self.paused;
        let look = async move {
            if known {
                let _ = pong.await;
                return Looked { pong: None, paused: None };
            }
            match timeout(ANSWER_WAIT, &mut pong).await {
                // Also that the link is lost, which is not for this to deal with.
                Ok(_) => Looked { pong: None, paused: None },
                Err(_) => Looked { pong: Some(pong), paused: paused.await },
            }
        };
        self.look = Some(look.boxed());
    }

    /// Waits for the look that is under way, if one is.
    ///
    /// Cancel safe: the look goes on.
    pub(super) async fn looked(&mut self) -> Option<Looked> {
        Some(self.look.as_mut()?.await)
    }

    /// Ends a look. The container's name, if it was found paused.
    pub(super) fn take(&mut self, Looked { pong, paused }: Looked) -> Option<String> {
        self.look = None;
        self.looked = Instant::now();
        self.pong = pong;
        self.paused = paused.is_some();
        paused
    }
}
