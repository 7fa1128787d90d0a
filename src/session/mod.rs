//! A container and its kernel as one thing: start, run, restart, hold, reattach, stop.

mod attach;
mod builder;
mod container;
mod directory;
mod owner;
mod queries;
mod reaper;
mod registry;
mod run;
mod runtime;
mod script;
mod start;
mod usage;
mod watch;
mod workdir;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub use attach::Attach;
pub(crate) use builder::check_span;
pub use builder::{DEFAULT_IMAGE, LinkPolicy, SessionBuilder};
pub use queries::{Completeness, Completion};
pub use registry::{Lease, SessionSummary};
pub use run::{Run, RunStream};
pub use script::{Script, ScriptStream};
pub use watch::Watch;

use self::script::Place;
use self::usage::Cgroup;
use crate::error::Ran;
use crate::files::{Files, Unfinished};
use crate::kernel::{Command, Handle, Recovered};
use crate::{Engine, Error, Execution, Usage};

/// A running session: a locked container and the Python kernel in it.
///
/// A cheap handle: clones share the session. An owned session (the default) is removed when its last handle is dropped, and ends by
/// itself 10 s after its process; a detached one goes on without its controller until its idle time or maximum life. Dropping a handle only
/// sends: it never blocks and never panics.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    name: String,
    handle: Handle,
    lease: Lease,
    cgroup: Option<Arc<Cgroup>>,
    place: Arc<Place>,
    unfinished: Unfinished,
    recovered: Mutex<Option<Recovered>>,
}

impl Session {
    /// Starts describing a new session.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Takes hold of a detached session by its name: `Session::attach("analysis").await?`.
    pub fn attach(name: impl Into<String>) -> Attach {
        Attach::new(name.into())
    }

    /// The session's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Owned or detached.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.0.lease
    }

    /// The engine that runs it.
    #[must_use]
    pub fn engine(&self) -> &Arc<dyn Engine> {
        self.0.place.programs.engine()
    }

    /// Whether the session has ended, as far as is known here: stopped, out of time, or its container is gone.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.handle.has_ended()
    }

    /// What the container uses: its CPU time since its start, and its memory. Each is none where the engine cannot tell.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.0.cgroup.as_deref().map(Cgroup::usage).unwrap_or_default()
    }

    /// Runs a cell and returns what came of it. Cells run one at a time, in the order in which their futures were first polled.
    ///
    /// A Python exception is an outcome, not an `Err`.
    ///
    /// # Errors
    ///
    /// The session has ended; [`Error::ran`] says whether the code ran.
    pub fn run(&self, code: impl Into<String>) -> Run {
        Run::new(self.clone(), code.into())
    }

    /// Runs a cell and returns what happens as a stream of [`Event`](crate::Event)s, the last of which is
    /// [`Event::Done`](crate::Event::Done).
    pub fn run_stream(&self, code: impl Into<String>) -> RunStream {
        RunStream::new(self.clone(), code.into())
    }

    /// The result of the cell that an earlier controller left, once it has ended: output that came while nobody was connected
    /// is in it. None if that controller had had the result itself, or if it was taken here before.
    ///
    /// Of a very long output the bridge keeps the first 2 MiB and the last 6; where some is lost, `outputs_left_out` counts it. What only the lost reply
    /// held is unknown. The result is kept for the next controller until somebody takes it or another cell runs.
    ///
    /// # Errors
    ///
    /// The session was let go before the cell ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the result is still there for the next controller, not for this one.
    pub async fn recovered(&self) -> Result<Option<Execution>, Error> {
        let waiting = self.0.recovered.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(waiting) = waiting else { return Ok(None) };
        let attempted = "cannot get the result of the cell that was left";
        let execution = waiting.await.map_err(|_| self.0.handle.gone(attempted, Ran::Yes))??;
        // A session that has ended has no next controller to be told.
        let _ = self.0.handle.send(Command::Delivered, attempted).await;
        Ok(Some(execution))
    }

    /// The files of the session's work directory.
    #[must_use]
    pub fn files(&self) -> Files {
        Files::new(self.0.handle.clone(), self.0.place.programs.clone(), self.0.unfinished.clone())
    }

    /// Interrupts the running cell, if one runs: a `KeyboardInterrupt` in the user's code. Returns once the kernel has taken the
    /// signal, or after five seconds where it is paused. That says nothing of what the code makes of it, which is in the cell's own [`Execution`].
    /// A cell that ends at the same moment may not see it; the next one never does.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub async fn interrupt(&self) -> Result<(), Error> {
        self.0.handle.call("cannot interrupt the kernel", Command::Interrupt).await?
    }

    /// Restarts the kernel: variables are gone, files are kept. A running cell ends with
    /// [`Status::KernelDied`](crate::Status::KernelDied); waiting ones run in the new kernel.
    ///
    /// # Errors
    ///
    /// The session has ended, or the kernel could not be started again, which ends it.
    pub async fn restart(&self) -> Result<(), Error> {
        self.0.handle.call("cannot restart the kernel", Command::Restart).await?
    }

    /// Ends the session and removes its container. A running cell ends with
    /// [`Status::ContainerGone`](crate::Status::ContainerGone); waiting ones never run.
    ///
    /// # Errors
    ///
    /// The session has ended already, or the engine could not remove the container.
    pub async fn stop(&self) -> Result<(), Error> {
        self.0.handle.call("cannot stop the session", Command::Stop).await?
    }

    /// Lets go of a detached session, which goes on without us; an owned one is stopped.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub async fn detach(&self) -> Result<(), Error> {
        match self.0.lease {
            Lease::Detached => self.0.handle.call("cannot let go of the session", Command::Release).await?,
            Lease::Owned => self.stop().await,
        }
    }

    fn handle(&self) -> &Handle {
        &self.0.handle
    }

    fn timeout(&self) -> Duration {
        self.0.place.defaults.timeout
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("name", &self.0.name).field("lease", &self.0.lease).finish_non_exhaustive()
    }
}
