//! Sessions over the fake engine: what only a kernel that does as it is told can show.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/fake/mod.rs"]
mod fake;

mod cells;
mod faults;
mod files;
mod hostile;
mod leases;

use std::sync::Arc;
use std::time::Duration;

use cellblock::{Session, SessionBuilder};
use fake::FakeEngine;

/// Describes a session whose interrupts do not take long to be despaired of.
fn builder(engine: &Arc<FakeEngine>) -> SessionBuilder {
    Session::builder().engine(Arc::clone(engine) as _).grace(Duration::from_millis(300))
}

async fn session(engine: &Arc<FakeEngine>) -> Session {
    builder(engine).start().await.unwrap()
}

/// Waits until a cell runs.
async fn busy(engine: &Arc<FakeEngine>) {
    while !engine.container().kernel().is_some_and(|kernel| kernel.is_busy()) {
        tokio::task::yield_now().await;
    }
}

/// Takes hold of a session that is about to be free.
async fn attach(engine: &Arc<FakeEngine>, name: &str) -> Session {
    loop {
        match Session::attach(name).engine(Arc::clone(engine) as _).await {
            Ok(session) => return session,
            // The bridge sees the end of the former controller a moment later.
            Err(error) => assert!(error.is_held(), "{error}"),
        }
    }
}

/// Ends the session and checks that the host kept to the bridge's protocol.
async fn stop(session: &Session, engine: &Arc<FakeEngine>) {
    let container = engine.container();
    session.stop().await.unwrap();
    assert_eq!(container.violations(), [""; 0]);
    assert!(engine.containers().is_empty());
}
