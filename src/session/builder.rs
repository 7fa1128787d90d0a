//! What a session is made of.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::registry::{Lease, annotations, container_name, labels};
use super::{Session, start, workdir};
use crate::error::{Error, Kind};
use crate::execution::Limits;
use crate::{ContainerSpec, Docker, Engine, Network, Workspace};

/// The image that a session uses when none is named.
pub const DEFAULT_IMAGE: &str = "cellblock:data";

/// The longest timeout, idle time and life that is taken: a day, and for a life thirty.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// An owned session's container has ended 10 s after its controller: the rest is for ending what runs in it.
const ORPHAN_GRACE: &str = "8";

/// Which way leads to the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LinkPolicy {
    /// Sockets of the host where they work, else the relay (the default).
    #[default]
    Auto,
    /// One exec stream of the engine, which works everywhere.
    Relay,
    /// Sockets of the host, or an error.
    Socket,
}

/// What a driver is told of its session's calls.
#[derive(Debug, Clone)]
pub(super) struct Defaults {
    pub(super) timeout: Duration,
    pub(super) grace: Duration,
    pub(super) ready: Duration,
    pub(super) limits: Limits,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            grace: Duration::from_secs(2),
            ready: Duration::from_secs(60),
            limits: Limits::default(),
        }
    }
}

/// Describes a session; [`start`](Self::start) starts it.
#[derive(Clone)]
#[must_use]
pub struct SessionBuilder {
    pub(super) engine: Option<Arc<dyn Engine>>,
    pub(super) name: Option<String>,
    pub(super) lease: Lease,
    pub(super) link: LinkPolicy,
    pub(super) defaults: Defaults,
    spec: ContainerSpec,
    workspace: Option<Workspace>,
    idle: Duration,
    life: Duration,
    stock: bool,
}

impl Default for SessionBuilder {
    fn default() -> Self {
        Self {
            engine: None,
            name: None,
            lease: Lease::Owned,
            link: LinkPolicy::default(),
            defaults: Defaults::default(),
            spec: ContainerSpec::new("", DEFAULT_IMAGE),
            workspace: None,
            idle: Duration::from_secs(3600),
            life: DAY,
            stock: false,
        }
    }
}

impl fmt::Debug for SessionBuilder {
    /// Without the environment, whose values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBuilder")
            .field("name", &self.name)
            .field("image", &self.spec.image)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}

impl SessionBuilder {
    /// Uses this engine instead of the one found by [`Docker::connect`](crate::Docker::connect).
    pub fn engine(mut self, engine: Arc<dyn Engine>) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Names the session. Unique for the user on that engine; a random name if none is given. Letters, digits, `.`, `_` and
    /// `-`, beginning with a letter or digit; at most 40.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The image (default [`DEFAULT_IMAGE`]).
    pub fn image(mut self, image: impl Into<String>) -> Self {
        self.spec.image = image.into();
        self
    }

    /// Lets the session go on without its controller, until its idle time or maximum life.
    pub fn detached(mut self, detached: bool) -> Self {
        self.lease = if detached { Lease::Detached } else { Lease::Owned };
        self
    }

    /// Memory limit in bytes (default 1 GiB); swap is off.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.spec.memory = bytes;
        self
    }

    /// CPU limit in cores (default 1).
    pub fn cpus(mut self, cores: f64) -> Self {
        self.spec.cpus = cores;
        self
    }

    /// Limit of processes and threads (default 256).
    pub fn pids(mut self, pids: u32) -> Self {
        self.spec.pids = pids;
        self
    }

    /// The network (default none).
    pub fn network(mut self, network: Network) -> Self {
        self.spec.network = network;
        self
    }

    /// The engine's runtime, such as `runsc`.
    pub fn runtime(mut self, runtime: impl Into<String>) -> Self {
        self.spec.runtime = Some(runtime.into());
        self
    }

    /// Adds a variable to the environment of the kernel.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.spec.env.push((name.into(), value.into()));
        self
    }

    /// What `/workspace` is (default a tmpfs of a quarter of the memory limit).
    pub fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = Some(workspace);
        self
    }

    /// The path by which the engine knows the directory of a [`Workspace::Host`]. It is another one where this program itself runs in a container, into which the
    /// directory is mounted. A path of some other directory is told at the start.
    pub fn bind_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.spec.bind_directory = Some(path.into());
        self
    }

    /// The timeout of a cell that names none (default 60 s).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.defaults.timeout = timeout;
        self
    }

    /// How long interrupted code may go on before the kernel is restarted (default 2 s).
    pub fn grace(mut self, grace: Duration) -> Self {
        self.defaults.grace = grace;
        self
    }

    /// How many bytes of a cell's stdout, and of its stderr, are kept in memory (default 1 MiB).
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.defaults.limits.text = bytes;
        self
    }

    /// A detached session ends after this long with no controller and no cell running (default 1 h).
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// The session ends this long after its start, whatever happens (default 24 h).
    pub fn max_life(mut self, life: Duration) -> Self {
        self.life = life;
        self
    }

    /// Which way leads to the container (default [`LinkPolicy::Auto`]).
    pub fn link(mut self, link: LinkPolicy) -> Self {
        self.link = link;
        self
    }

    /// Runs ipykernel as it comes, for comparisons: slower, and a flood of outputs can lose some.
    #[doc(hidden)]
    pub fn stock_kernel(mut self, stock: bool) -> Self {
        self.stock = stock;
        self
    }

    /// Creates the container, starts the kernel and waits until it is ready.
    ///
    /// # Errors
    ///
    /// No engine answers, the image is missing, the name is taken, an argument is out of range, a limit cannot be enforced, or the kernel did not
    /// become ready. Nothing is left behind.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the start goes on in the background and the session is then removed, a detached one too.
    pub async fn start(self) -> Result<Session, Error> {
        Box::pin(start::start(self)).await
    }

    /// Checks everything that can be checked here and says what to create, and when its life is over. The engine, and the host's directory, come later.
    pub(super) fn specification(&self, name: &str, directory: &str) -> Result<(ContainerSpec, SystemTime), Error> {
        check_name(name)?;
        check_span("timeout", self.defaults.timeout, DAY)?;
        check_span("grace", self.defaults.grace, DAY)?;
        check_span("idle time", self.idle, 30 * DAY)?;
        check_span("maximum life", self.life, 30 * DAY)?;
        let expires = SystemTime::now() + self.life;
        if self.spec.image.trim().is_empty() {
            return Err(usage("the image has no name".to_owned()));
        }
        for (variable, value) in &self.spec.env {
            if variable.is_empty() || variable.contains(['=', '\0']) || value.contains('\0') {
                return Err(usage(format!("the environment variable {variable:?} has no valid name or value")));
            }
        }
        let seconds = |duration: Duration| format!("{:.3}", duration.as_secs_f64());
        let lease = self.lease.word();
        let mut args = [
            "init",
            "--lease",
            lease,
            "--orphan-grace",
            ORPHAN_GRACE,
            "--idle",
            &seconds(self.idle),
            "--max-life",
            &seconds(self.life),
        ]
        .map(str::to_owned)
        .to_vec();
        if self.stock {
            args.push("--stock".to_owned());
        }
        let mut spec = self.spec.clone();
        spec.name = container_name(name);
        spec.args = args;
        spec.workspace = match &self.workspace {
            Some(Workspace::Host(path)) => Workspace::Host(workdir::resolve(path)?),
            Some(workspace) => workspace.clone(),
            None => Workspace::Memory(self.spec.memory / 4),
        };
        if let Some(path) = &spec.bind_directory {
            workdir::check_bind(path, &spec.workspace)?;
        }
        spec.labels = labels(name, self.lease, directory, expires);
        spec.annotations = annotations(&spec.workspace);
        Ok((spec, expires))
    }
}

/// A name that the engine takes, and that no terminal or path can be confused by.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if first && name.len() <= 40 && name.bytes().all(plain) {
        return Ok(());
    }
    Err(usage(format!("the session name {name:?} is not one"))
        .with_hint("letters, digits, `.`, `_` and `-`, beginning with a letter or digit; at most 40"))
}

pub(crate) fn check_span(what: &str, span: Duration, most: Duration) -> Result<(), Error> {
    if span.is_zero() || span > most {
        return Err(usage(format!("the {what} must be more than 0 and at most {} hours", most.as_secs() / 3600)));
    }
    Ok(())
}

fn usage(text: String) -> Error {
    Error::new(Kind::Usage, text)
}

/// The engine that was given, or the one that is found.
pub(super) async fn engine_or_default(engine: Option<Arc<dyn Engine>>) -> Result<Arc<dyn Engine>, Error> {
    match engine {
        Some(engine) => Ok(engine),
        None => Ok(Arc::new(Docker::connect().await?)),
    }
}
