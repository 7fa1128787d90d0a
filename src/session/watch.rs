//! Following a session that somebody else holds, or nobody.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::mpsc;

use super::registry;
use super::start::relay;
use super::{Session, runtime};
use crate::error::{Error, Kind};
use crate::execution::{Collector, Ending, Event, Limits};
use crate::protocol::{Inbox, Key, Parsed};
use crate::transport::{Bridge, BridgeError, Reassembly};
use crate::{Engine, Lease};

/// How often the recording is looked at. It costs the kernel nothing, and the bridge some microseconds.
const LOOK: Duration = Duration::from_millis(100);
const ANSWER_WAIT: Duration = Duration::from_secs(30);
const QUEUE: usize = 256;

/// What happens in a session, as a stream: read-only, beside whoever holds it.
///
/// It begins with the latest cell. Each cell ends with [`Event::Done`], whose execution knows what IOPub tells; what only its holder
/// knows (timeouts, deaths, pauses, usage) is not in it. The bridge keeps one cell: where others came and went between two looks, some ten a second, or the end of one
/// was not seen, there is an [`Event::Lagged`].
#[derive(Debug)]
pub struct Watch(mpsc::Receiver<Result<Event, Error>>);

impl Stream for Watch {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

impl Session {
    /// Follows a detached session by its name without holding it. The stream ends with the session.
    ///
    /// # Errors
    ///
    /// There is no detached session of that name, or its bridge does not answer.
    pub async fn watch(engine: Arc<dyn Engine>, name: &str) -> Result<Watch, Error> {
        let found = registry::find(engine.as_ref(), name).await?;
        if found.lease == Lease::Owned {
            return Err(Error::new(Kind::Held, format!("cannot watch the session {name}"))
                .with_source("it belongs to its controller alone")
                .with_hint("`cellblock session start` starts sessions that others can watch"));
        }
        let (sender, events) = mpsc::channel(QUEUE);
        let attempted = format!("cannot watch the session {name}");
        let started = runtime::spawn(async move {
            let mut bridge = Bridge::over(relay(engine.as_ref(), &found.container).await?);
            let failed = |error| Error::new(Kind::Protocol, attempted.clone()).with_source(error);
            bridge.greet_as_watcher(ANSWER_WAIT).await.map_err(failed)?;
            runtime::spawn(async move {
                tokio::select! {
                    end = follow(&mut bridge, &sender) => {
                        if let Err(error) = end {
                            tracing::debug!(%error, "the watched session has ended");
                        }
                    }
                    () = sender.closed() => {}
                }
            })?;
            Ok(())
        })?;
        started
            .await
            .unwrap_or_else(|_| Err(Error::new(Kind::Protocol, format!("cannot watch the session {name}"))))?;
        Ok(Watch(events))
    }
}

/// Reads on and on; ends with the bridge.
async fn follow(bridge: &mut Bridge, events: &mpsc::Sender<Result<Event, Error>>) -> Result<(), BridgeError> {
    let mut number = 0;
    loop {
        let hello = bridge.greet_as_watcher(ANSWER_WAIT).await?;
        match hello.cell {
            Some(cell) if cell.number != number => {
                let missed = cell.number.saturating_sub(number).saturating_sub(1);
                if number > 0 && missed > 0 && events.send(Ok(Event::Lagged { events: missed })).await.is_err() {
                    return Ok(());
                }
                number = cell.number;
                follow_cell(bridge, number, &Key::new(cell.key.as_str()), events).await?;
            }
            _ => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Follows one cell until another is recorded.
async fn follow_cell(
    bridge: &mut Bridge,
    number: u64,
    key: &Key,
    events: &mpsc::Sender<Result<Event, Error>>,
) -> Result<(), BridgeError> {
    let mut inbox = Inbox::new(key.clone());
    let mut reassembly = Reassembly::default();
    let mut collector = Some(Collector::new(Limits::default(), None));
    loop {
        let page = bridge.page(number, reassembly.next(), ANSWER_WAIT).await?;
        if page.cell != number {
            if collector.is_some() {
                let _ = events.send(Ok(Event::Lagged { events: 1 })).await;
            }
            return Ok(());
        }
        let lost = reassembly.lost();
        let messages = reassembly.push(&page).map_err(|error| BridgeError::Unreadable(error.to_string()))?;
        if reassembly.lost() > lost && events.send(Ok(Event::Lagged { events: 1 })).await.is_err() {
            return Ok(());
        }
        for frames in messages {
            let Ok(Parsed::Message(message)) = inbox.read(&frames) else { continue };
            let Some(running) = &mut collector else { break };
            let event = running.iopub(message.msg_type(), &message.content, &message.header.date);
            let idle = running.is_idle();
            if let Some(event) = event
                && events.send(Ok(event)).await.is_err()
            {
                return Ok(());
            }
            if idle && let Some(ended) = collector.take() {
                let execution = ended.finish(Ending::as_told()).await;
                let _ = events.send(Ok(Event::Done(Box::new(execution)))).await;
            }
        }
        if reassembly.next() >= page.total {
            tokio::time::sleep(LOOK).await;
        }
    }
}
