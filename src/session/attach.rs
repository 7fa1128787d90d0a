//! Taking hold of a detached session.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tracing::Instrument;

use super::Session;
use super::builder::{Defaults, LinkPolicy, check_span, engine_or_default};
use super::container::SessionContainer;
use super::directory::HostDirectory;
use super::registry::{self, Lease, SessionSummary};
use super::start::{About, dial, greet, on_runtime, run};
use crate::Engine;
use crate::error::{Error, Kind};
use crate::transport::SocketListener;

/// How long a bridge may take to notice that its controller has gone.
const RELEASE_WAIT: Duration = Duration::from_secs(3);

/// Takes hold of a detached session; a future of the [`Session`].
///
/// One controller holds a session at a time. Variables are as they were left. A cell that an earlier controller left running goes on; the
/// next one waits for its end.
#[derive(Debug)]
#[must_use = "an attach does nothing unless awaited"]
pub struct Attach {
    name: String,
    engine: Option<Arc<dyn Engine>>,
    defaults: Defaults,
}

impl Attach {
    pub(super) fn new(name: String) -> Self {
        Self { name, engine: None, defaults: Defaults::default() }
    }

    /// Uses this engine instead of the one found by [`Docker::connect`](crate::Docker::connect).
    pub fn engine(mut self, engine: Arc<dyn Engine>) -> Self {
        self.engine = Some(engine);
        self
    }

    /// The timeout of a cell that names none (default 60 s).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.defaults.timeout = timeout;
        self
    }
}

impl IntoFuture for Attach {
    type Output = Result<Session, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        async move {
            check_span("timeout", self.defaults.timeout, Duration::from_secs(24 * 3600))?;
            let engine = engine_or_default(self.engine).await?;
            let span = tracing::info_span!("session", name = self.name);
            let attach = attach(engine, self.name, self.defaults).instrument(span);
            on_runtime(attach, |session| async move { session.detach().await }).await
        }
        .boxed()
    }
}

async fn attach(engine: Arc<dyn Engine>, name: String, defaults: Defaults) -> Result<Session, Error> {
    let found = registry::find(engine.as_ref(), &name).await?;
    if found.lease == Lease::Owned {
        return Err(failed(Kind::Held, &name)
            .with_source("it belongs to the controller that started it")
            .with_hint("`cellblock session start` starts sessions that others can use"));
    }
    if found.state != "running" {
        return Err(not_running(&found));
    }
    let directory =
        HostDirectory::reopen(&found.directory, engine.as_ref()).await.map_err(|error| named(error, &name))?;
    let listener = if found.mounted { SocketListener::bind(&directory.mounted(), directory.path()).ok() } else { None };
    let mut container = SessionContainer::watch(
        Arc::clone(&engine),
        found.container.clone(),
        found.name.clone(),
        directory,
        found.workdir,
    )?;
    let pid = engine.pid(&found.container).await?;
    container.locate(pid);
    let hold = async || {
        let link = dial(engine.as_ref(), &found.container, listener.as_ref(), pid, LinkPolicy::Auto).await?;
        greet(link, container.holder()).await
    };
    // The directory's lock is ours: a bridge that still counts an earlier controller is about to see its end.
    let until = Instant::now() + RELEASE_WAIT;
    let greeted = loop {
        match hold().await {
            Err(error) if error.is_held() && Instant::now() < until => {}
            result => break result.map_err(|error| named(error, &name))?,
        }
    };
    let about = About { name, image: found.image, lease: Lease::Detached, expires: found.expires, defaults };
    run(engine, container, greeted, about).await
}

fn failed(kind: Kind, name: &str) -> Error {
    Error::new(kind, format!("cannot take hold of the session {name}"))
}

/// Who finds that a session is held does not know how it is called.
fn named(error: Error, name: &str) -> Error {
    if !error.is_held() {
        return error;
    }
    failed(Kind::Held, name).with_source("another controller holds it").with_hint(format!(
        "stop that controller, or wait until it lets go; `cellblock session watch {name}` shows what it does"
    ))
}

/// A container that does not run is not gone in every case.
fn not_running(found: &SessionSummary) -> Error {
    let failed = |kind| failed(kind, &found.name).with_source(format!("its container is {}", found.state));
    match found.state.as_str() {
        "paused" => failed(Kind::Start)
            .with_hint(format!("`docker unpause {}` lets it go on", registry::container_name(&found.name))),
        "created" => failed(Kind::Start).with_hint(format!(
            "its start is under way, or was killed; `cellblock session stop {}` removes it",
            found.name
        )),
        _ => failed(Kind::Gone),
    }
}
