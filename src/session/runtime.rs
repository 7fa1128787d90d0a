//! The thread that all sessions' drivers live on.

use std::future::Future;
use std::io;
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
    let failed = || Error::new(Kind::Io, "cannot start the thread of the sessions");
    match RUNTIME.get() {
        Some(runtime) => Ok(runtime.spawn(future)),
        None => {
            make(&RUNTIME).map_err(|error| failed().with_source(error))?;
            Ok(RUNTIME.get().ok_or_else(failed)?.spawn(future))
        }
    }
}

fn make(place: &OnceLock<Runtime>) -> io::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("cellblock").enable_all().build()?;
    if let Err(second) = place.set(runtime) {
        // Somebody was first. Merely dropped, it would wait for its thread, which panics on a thread of another runtime.
        second.shutdown_background();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn sessions_that_are_a_processs_first_at_the_same_time_do_not_panic() {
        for _ in 0..20 {
            let (place, together) = (Arc::new(OnceLock::new()), Arc::new(Barrier::new(4)));
            let firsts: Vec<_> = (0..4)
                .map(|_| {
                    let (place, together) = (Arc::clone(&place), Arc::clone(&together));
                    tokio::spawn(async move {
                        together.wait();
                        make(&place)
                    })
                })
                .collect();
            for first in firsts {
                first.await.unwrap().unwrap();
            }
            let Some(only) = Arc::into_inner(place).and_then(OnceLock::into_inner) else { panic!("one is there") };
            only.shutdown_background();
        }
    }
}
