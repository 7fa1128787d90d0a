//! The thread that all sessions' drivers live on.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::error::{Error, Kind};

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Spawns onto the drivers' runtime, which lives as long as the process: a caller's runtime that blocks or ends neither stalls
/// nor leaks a session.
pub(super) fn spawn<F>(future: F) -> Result<JoinHandle<F::Output>, Error>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime.spawn(future));
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("cellblock")
        .enable_all()
        .build()
        .map_err(|error| Error::new(Kind::Io, "cannot start the thread of the sessions").with_source(error))?;
    let _ = RUNTIME.set(runtime);
    match RUNTIME.get() {
        Some(runtime) => Ok(runtime.spawn(future)),
        None => Err(Error::new(Kind::Io, "cannot start the thread of the sessions")),
    }
}
