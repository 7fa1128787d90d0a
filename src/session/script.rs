//! One script's call: its options, its future, its stream.

use std::ffi::OsStr;
use std::fmt;
use std::future::IntoFuture;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream};
use tokio::sync::{Notify, mpsc, oneshot};
use tracing::Instrument as _;

use super::builder::{Defaults, check_span};
use super::{Session, runtime};
use crate::ExecEnd;
use crate::engine::Programs;
use crate::error::{Error, Kind, Ran};
use crate::execution::{SpillDirectory, State};
use crate::kernel::{OnDrop, ScriptFate, WeakHandle};
use crate::shell::{
    Attendance, Attended, End, PROCESSES_HINT, Program, Request, ScriptEvent, ScriptOutcome, ScriptStatus,
    ScriptTiming, Shell, attend,
};

/// Events that wait for a slow consumer; each has at most 64 KiB.
const EVENTS: usize = 16;
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Session {
    /// Runs a script: its bytes, as they are, become a file of the container, which the interpreter is given. It runs beside the kernel, and beside cells; variables
    /// are untouched. When it ends, however, all processes that it has started are ended too.
    ///
    /// An exit code that is not 0 is an outcome, not an `Err`.
    ///
    /// # Errors
    ///
    /// The session has ended, the image has no such interpreter, or an argument is not usable; [`Error::ran`] says whether the script ran.
    pub fn run_shell(&self, script: impl Into<Vec<u8>>, shell: impl Into<Shell>) -> Script {
        Script::new(self.clone(), Program::Text { shell: shell.into(), text: Bytes::from(script.into()) })
    }

    /// Runs a file of the session, which is executable or whose [`interpreter`](Script::interpreter) is given, as [`run_shell`](Self::run_shell) does. Its path is
    /// absolute or relative to the work directory.
    ///
    /// # Errors
    ///
    /// As for [`run_shell`](Self::run_shell); also if there is no such file.
    pub fn run_file<A: AsRef<OsStr>>(&self, path: impl AsRef<OsStr>, args: impl IntoIterator<Item = A>) -> Script {
        Script::new(self.clone(), Program::File { path: path.as_ref().to_owned(), shell: None }).args(args)
    }

    /// Runs a program of the container with its arguments, as [`run_shell`](Self::run_shell) does; no shell is involved.
    ///
    /// # Errors
    ///
    /// As for [`run_shell`](Self::run_shell).
    pub fn run_program<A: AsRef<OsStr>>(&self, argv: impl IntoIterator<Item = A>) -> Script {
        Script::new(self.clone(), Program::Arguments).args(argv)
    }
}

/// Where scripts run. It does not keep the session: that is its handles' affair.
pub(super) struct Place {
    pub(super) programs: Programs,
    pub(super) image: String,
    pub(super) defaults: Defaults,
    pub(super) spills: Option<SpillDirectory>,
    pub(super) session: WeakHandle,
}

/// A script or program to run; a future of its [`ScriptOutcome`].
///
/// # Cancel safety
///
/// Dropping the future never harms the session: what becomes of the script is decided by [`on_drop`](Self::on_drop), and its timeout stays in force.
#[must_use = "a script does nothing unless awaited"]
pub struct Script {
    session: Session,
    request: Request,
    timeout: Option<Duration>,
    on_drop: OnDrop,
}

impl Script {
    fn new(session: Session, program: Program) -> Self {
        let defaults = &session.0.place.defaults;
        let request = Request::new(program, defaults.timeout, defaults.grace);
        Self { session, request, timeout: None, on_drop: OnDrop::default() }
    }

    /// The total time that it may take (default: the session's). Then all that it has started gets SIGTERM, and after the session's grace SIGKILL.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.request.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.request.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable of its environment, which is otherwise the container's.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.request.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Where it runs: absolute or relative to the work directory (the default).
    pub fn current_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.request.current_dir = Some(path.into());
        self
    }

    /// What it reads from stdin, which is otherwise empty.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.request.stdin = Some(Bytes::from(bytes.into()));
        self
    }

    /// What runs the file of a [`run_file`](Session::run_file); of anything else it is known already.
    pub fn interpreter(mut self, interpreter: impl Into<Shell>) -> Self {
        if let Program::File { shell, .. } = &mut self.request.program {
            *shell = Some(interpreter.into());
        }
        self
    }

    /// What becomes of the script when its future or stream is dropped.
    pub fn on_drop(mut self, on_drop: OnDrop) -> Self {
        self.on_drop = on_drop;
        self
    }

    /// Runs it, and returns what happens as a stream of [`ScriptEvent`]s. It starts when first polled.
    pub fn stream(self) -> ScriptStream {
        ScriptStream { phase: Phase::New(Box::new(self)), interrupt: Arc::default() }
    }

    /// Runs it on the sessions' own thread, whatever becomes of the caller.
    fn start(mut self, events: Option<mpsc::Sender<ScriptEvent>>, interrupt: Arc<Notify>) -> Result<Reply, Error> {
        if let Some(timeout) = self.timeout {
            self.request.timeout = timeout;
        }
        check_span("timeout", self.request.timeout, DAY)?;
        self.request.check()?;
        let (sender, reply) = oneshot::channel();
        let span = tracing::info_span!("script", session = self.session.name());
        let Self { session, request, on_drop, .. } = self;
        let place = Arc::clone(&session.0.place);
        runtime::spawn(carry_out(place, request, on_drop, events, interrupt, sender).instrument(span))?;
        Ok(reply)
    }
}

async fn carry_out(
    place: Arc<Place>,
    request: Request,
    on_drop: OnDrop,
    events: Option<mpsc::Sender<ScriptEvent>>,
    interrupt: Arc<Notify>,
    mut reply: oneshot::Sender<Result<ScriptOutcome, Error>>,
) {
    let stop = async {
        tokio::select! {
            () = interrupt.notified() => {}
            () = reply.closed(), if on_drop == OnDrop::Interrupt => {}
        }
    };
    let result = place.run(&request, events, stop).await;
    let _ = reply.send(result);
}

type Reply = oneshot::Receiver<Result<ScriptOutcome, Error>>;

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").finish_non_exhaustive()
    }
}

impl IntoFuture for Script {
    type Output = Result<ScriptOutcome, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move { self.start(None, Arc::default())?.await.unwrap_or_else(|_| Err(unknown())) }.boxed()
    }
}

fn unknown() -> Error {
    Error::new(Kind::Protocol, "cannot learn what came of the script").with_ran(Ran::Unknown)
}

impl Place {
    async fn run(
        &self,
        request: &Request,
        events: Option<mpsc::Sender<ScriptEvent>>,
        stop: impl Future<Output = ()>,
    ) -> Result<ScriptOutcome, Error> {
        let submitted = Instant::now();
        let id = uuid::Uuid::new_v4().simple().to_string();
        let gone =
            |how: &str| Error::new(Kind::Gone, request.attempted()).with_ran(Ran::Never).with_source(how.to_owned());
        if let Some(how) = self.session.ended() {
            return Err(gone(how));
        }
        let exec = self.programs.start(&["script", &id]).await.map_err(|error| match self.session.ended() {
            Some(how) => gone(how),
            None => Error::new(error.kind(), request.attempted()).with_source(error),
        })?;
        let attendance = Attendance { exec, limits: self.defaults.limits, spills: self.spills.clone(), events };
        let Attended { end, out_of_memory, stdout, stderr, started } = attend(attendance, request, stop).await;
        let (status, running) = match end {
            End::Refused(refusal) => return Err(refusal.error(request, &self.image)),
            End::Told { status, running, clean: true } => (status, Some(running)),
            End::Told { status, running, clean: false } => match self.session.end_script(&id).await {
                ScriptFate::Ended => (status, Some(running)),
                fate => (lost(fate, "some of its processes could not be ended"), Some(running)),
            },
            // Nothing was started, because it was to be ended.
            End::Untold { interrupted: true, exec: Some(ExecEnd { code: Some(0), .. }), .. } if started.is_none() => {
                (ScriptStatus::Interrupted, None)
            }
            End::Untold { why, overdue, exec, .. } => {
                let fate = self.session.end_script(&id).await;
                match (fate, started) {
                    (ScriptFate::Ended, Some(_)) if overdue => (ScriptStatus::TimedOut, None),
                    (fate, Some(_)) => (lost(fate, &why), None),
                    (fate, None) => return Err(not_started(request, fate, &why, exec)),
                }
            }
        };
        let state = match status {
            ScriptStatus::ContainerGone(_) => State::ContainerGone,
            _ => State::Kept,
        };
        let starting = started.map_or_else(|| submitted.elapsed(), |at| at.into_std() - submitted);
        let timing = ScriptTiming { starting, running, total: submitted.elapsed() };
        Ok(ScriptOutcome { status, state, out_of_memory, stdout, stderr, timing })
    }
}

/// The status of a script whose end is not known.
fn lost(fate: ScriptFate, why: &str) -> ScriptStatus {
    match fate {
        ScriptFate::Gone(how) => ScriptStatus::ContainerGone(how),
        ScriptFate::Ended => ScriptStatus::Lost(format!("{why}; all that it had started was ended")),
        ScriptFate::Unknown => ScriptStatus::Lost(format!("{why}; some of it may go on")),
    }
}

fn not_started(request: &Request, fate: ScriptFate, why: &str, exec: Option<ExecEnd>) -> Error {
    let failed = |kind, ran, why: &str| Error::new(kind, request.attempted()).with_ran(ran).with_source(why.to_owned());
    if let ScriptFate::Gone(how) = fate {
        return failed(Kind::Gone, Ran::Unknown, &how);
    }
    let Some(ExecEnd { code, stderr, .. }) = exec else { return failed(Kind::Protocol, Ran::Unknown, why) };
    let stderr = String::from_utf8_lossy(&stderr);
    let said = if stderr.trim().is_empty() { why } else { stderr.trim() };
    match code {
        // What runc says, in many words, where it finds no room for a process of its own; a file that is not there is another matter.
        Some(126..=128 | 255) if said.contains("exec failed") && !said.contains("no such file") => {
            failed(Kind::Start, Ran::Never, said).with_hint(PROCESSES_HINT)
        }
        // The shell's and the engine's words for a program that was not started, and the bridge's for one that it does not know.
        Some(64 | 126 | 127) => failed(Kind::Start, Ran::Never, said)
            .with_hint("the image may be older than this cellblock: `cellblock image build` builds it anew"),
        _ => failed(Kind::Protocol, Ran::Unknown, said),
    }
}

/// A script to run; a stream of its [`ScriptEvent`]s. It starts when first polled.
///
/// The last item is [`ScriptEvent::Done`], or an error. A consumer that is slower than the script slows it, as a pipe does; nothing is left out,
/// unless it reads nothing until the script's time is over.
///
/// # Cancel safety
///
/// As for [`Script`].
#[must_use = "a stream does nothing unless polled"]
pub struct ScriptStream {
    phase: Phase,
    interrupt: Arc<Notify>,
}

enum Phase {
    New(Box<Script>),
    Running { events: mpsc::Receiver<ScriptEvent>, reply: Reply },
    Over,
}

impl ScriptStream {
    /// Ends the script with all that it has started, as its timeout would: the outcome is [`ScriptStatus::Interrupted`].
    pub fn interrupt(&self) {
        self.interrupt.notify_one();
    }
}

impl fmt::Debug for ScriptStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptStream").finish_non_exhaustive()
    }
}

impl Stream for ScriptStream {
    type Item = Result<ScriptEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::New(script) => {
                    let (sender, events) = mpsc::channel(EVENTS);
                    match script.start(Some(sender), Arc::clone(&self.interrupt)) {
                        Ok(reply) => self.phase = Phase::Running { events, reply },
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    }
                }
                Phase::Running { mut events, mut reply } => {
                    let polled = match events.poll_recv(context) {
                        Poll::Ready(Some(event)) => Poll::Ready(Ok(event)),
                        Poll::Ready(None) => match reply.poll_unpin(context) {
                            Poll::Ready(result) => {
                                let result = result.unwrap_or_else(|_| Err(unknown()));
                                return Poll::Ready(Some(result.map(|outcome| ScriptEvent::Done(Box::new(outcome)))));
                            }
                            Poll::Pending => Poll::Pending,
                        },
                        Poll::Pending => Poll::Pending,
                    };
                    self.phase = Phase::Running { events, reply };
                    return polled.map(Some);
                }
                Phase::Over => return Poll::Ready(None),
            }
        }
    }
}
