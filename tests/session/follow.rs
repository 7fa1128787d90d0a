//! A cell followed while it runs, and left.

use std::sync::Arc;
use std::time::Duration;

use cellblock::{Engine, Error, Event, Execution, OnDrop, RunStream, Session};
use futures_util::StreamExt as _;

/// A running cell, known to run because of what it printed.
pub(crate) struct Following {
    stream: RunStream,
    pub(crate) stdout: String,
}

impl Following {
    /// Starts a cell and returns once it has printed this.
    pub(crate) async fn until(session: &Session, code: impl Into<String>, printed: &str) -> Self {
        Self::begin(session.run_stream(code)).until_printed(printed).await
    }

    pub(crate) fn begin(stream: RunStream) -> Self {
        Self { stream, stdout: String::new() }
    }

    pub(crate) async fn until_printed(mut self, printed: &str) -> Self {
        while !self.stdout.contains(printed) {
            if let Event::Done(execution) = self.next().await {
                panic!("ended without printing {printed:?}: {execution:?}");
            }
        }
        self
    }

    async fn next(&mut self) -> Event {
        let event = self.stream.next().await.expect("Done is the last event").expect("the call goes well");
        if let Event::Stdout(text) = &event {
            self.stdout.push_str(text);
        }
        event
    }

    /// Reads to the end.
    pub(crate) async fn finish(mut self) -> Execution {
        loop {
            if let Event::Done(execution) = self.next().await {
                return *execution;
            }
        }
    }

    /// Reads to the failure of the call.
    pub(crate) async fn failed(mut self) -> Error {
        loop {
            match self.stream.next().await.expect("an error is the last item") {
                Ok(Event::Done(execution)) => panic!("it did not fail: {execution:?}"),
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    }
}

/// Starts a cell, and lets go of the session once it has printed `begun`.
pub(crate) async fn leave_running(session: &Session, code: &str, timeout: Duration) {
    let stream = session.run_stream(code).timeout(timeout).on_drop(OnDrop::LeaveRunning);
    let running = Following::begin(stream).until_printed("begun").await;
    session.detach().await.expect("it lets go");
    drop(running);
}

/// Waits for the end of the latest cell as one who only watches, and so is no controller.
pub(crate) async fn until_cell_ended(engine: Arc<dyn Engine>, name: &str) {
    let mut events = Session::watch(engine, name).await.expect("it can be watched");
    while !matches!(events.next().await.expect("it runs").expect("the watch goes well"), Event::Done(_)) {}
}
