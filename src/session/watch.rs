//! Following a session that somebody else holds, or nobody.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::registry::{self, SessionSummary};
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
/// After this long without an answer the engine is asked whether the container is paused.
const SILENCE: Duration = Duration::from_secs(2);
const QUEUE: usize = 256;

/// What happens in a session, as a stream: read-only, beside whoever holds it.
///
/// It begins with the latest cell. Each cell ends with [`Event::Done`], whose execution knows what IOPub tells; what only its holder
/// knows (timeouts, deaths, usage) is not in it. The bridge keeps one cell: where others came and went between two looks, some ten a second, or the end of one
/// was not seen, there is an [`Event::Lagged`]. A container that is paused is told by [`Event::Paused`], between cells too.
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
                let watcher = Watcher { engine: engine.as_ref(), session: &found, events: &sender };
                tokio::select! {
                    end = watcher.follow(&mut bridge) => {
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

/// One who follows a session, and whom it tells.
struct Watcher<'a> {
    engine: &'a dyn Engine,
    session: &'a SessionSummary,
    events: &'a mpsc::Sender<Result<Event, Error>>,
}

impl Watcher<'_> {
    /// Reads on and on; ends with the bridge.
    async fn follow(&self, bridge: &mut Bridge) -> Result<(), BridgeError> {
        let mut number = 0;
        loop {
            let hello = self.answered(bridge.greet_as_watcher(Duration::MAX)).await?;
            match hello.cell {
                Some(cell) if cell.number != number => {
                    let missed = cell.number.saturating_sub(number).saturating_sub(1);
                    if number > 0 && missed > 0 && !self.tell(Event::Lagged { events: missed }).await {
                        return Ok(());
                    }
                    number = cell.number;
                    self.follow_cell(bridge, number, &Key::new(cell.key.as_str())).await?;
                }
                _ => sleep(LOOK).await,
            }
        }
    }

    /// Follows one cell until another is recorded.
    async fn follow_cell(&self, bridge: &mut Bridge, number: u64, key: &Key) -> Result<(), BridgeError> {
        let mut inbox = Inbox::new(key.clone());
        let mut reassembly = Reassembly::default();
        let mut collector = Some(Collector::new(Limits::default(), None));
        loop {
            let page = self.answered(bridge.page(number, reassembly.next(), Duration::MAX)).await?;
            if page.cell != number {
                if collector.is_some() {
                    self.tell(Event::Lagged { events: 1 }).await;
                }
                return Ok(());
            }
            let lost = reassembly.lost();
            let messages = reassembly.push(&page).map_err(|error| BridgeError::Unreadable(error.to_string()))?;
            if reassembly.lost() > lost && !self.tell(Event::Lagged { events: 1 }).await {
                return Ok(());
            }
            for frames in messages {
                let Ok(Parsed::Message(message)) = inbox.read(&frames) else { continue };
                let Some(running) = &mut collector else { break };
                let event = running.iopub(message.msg_type(), &message.content, &message.header.date);
                let idle = running.is_idle();
                if let Some(event) = event
                    && !self.tell(event).await
                {
                    return Ok(());
                }
                if idle && let Some(ended) = collector.take() {
                    let execution = ended.finish(Ending::as_told()).await;
                    self.tell(Event::Done(Box::new(execution))).await;
                }
            }
            if reassembly.next() >= page.total {
                sleep(LOOK).await;
            }
        }
    }

    /// Waits for an answer of the bridge. In a container that is paused it is as late as the pause is long.
    async fn answered<T>(&self, answer: impl Future<Output = Result<T, BridgeError>>) -> Result<T, BridgeError> {
        let mut answer = pin!(answer);
        let mut until = Instant::now() + ANSWER_WAIT;
        let mut told = false;
        loop {
            if let Ok(answer) = timeout(SILENCE, &mut answer).await {
                return answer;
            }
            if let Some(container) = registry::paused(self.engine, &self.session.name, &self.session.container).await {
                until = Instant::now() + ANSWER_WAIT;
                if !std::mem::replace(&mut told, true) {
                    self.tell(Event::Paused { container }).await;
                }
            } else if Instant::now() >= until {
                return Err(BridgeError::TimedOut(ANSWER_WAIT));
            }
        }
    }

    /// Whether anybody is there who listens.
    async fn tell(&self, event: Event) -> bool {
        self.events.send(Ok(event)).await.is_ok()
    }
}
