//! Container engines behind one trait, shaped for Docker now and Kubernetes next.

mod discover;
mod docker;
#[cfg(test)]
mod fake;
mod image;
mod programs;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::Error;

pub use docker::Docker;
pub use image::{BuildEvent, Image, ImageBuild, ImageTarget};
pub(crate) use programs::{BRIDGE, Programs};

/// A container engine: what a session needs of Docker, Podman or, later, Kubernetes.
///
/// All paths, users and environments of an `exec` are the container's own: the argument list is all that is given.
pub trait Engine: fmt::Debug + Send + Sync {
    /// Creates a container without starting it and returns its id.
    ///
    /// # Errors
    ///
    /// The image is missing, the name is taken, or a limit cannot be enforced: a limit that the engine refuses or ignores is an error.
    fn create<'a>(&'a self, spec: &'a ContainerSpec) -> BoxFuture<'a, Result<ContainerId, Error>>;

    /// Starts a created container.
    ///
    /// # Errors
    ///
    /// The engine could not start it.
    fn start<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>>;

    /// Waits until the container has ended. May be called before [`start`](Self::start), and then does not miss a short life.
    ///
    /// # Errors
    ///
    /// The engine was lost. A container that is already removed is an [`Exit`] without a code.
    fn wait<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Exit, Error>>;

    /// Runs a program in the running container with its stdin and stdout attached, stderr apart.
    ///
    /// # Errors
    ///
    /// The container is gone or the program could not be started.
    fn exec<'a>(&'a self, id: &'a ContainerId, argv: &'a [&'a str]) -> BoxFuture<'a, Result<Exec, Error>>;

    /// Kills the container's processes.
    ///
    /// # Errors
    ///
    /// The engine was lost. A container that is already gone is a success.
    fn kill<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>>;

    /// Kills and removes the container with its anonymous volumes.
    ///
    /// # Errors
    ///
    /// The engine was lost. A container that is already gone is a success.
    fn remove<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>>;

    /// Lists the containers, running or not, that carry all these labels.
    ///
    /// # Errors
    ///
    /// The engine was lost.
    fn list<'a>(&'a self, labels: &'a [(&'a str, &'a str)]) -> BoxFuture<'a, Result<Vec<ContainerSummary>, Error>>;

    /// The pid of the container's first process on this machine, if the engine can tell. A number from another machine is
    /// possible: callers prove it before they use it.
    ///
    /// # Errors
    ///
    /// The engine was lost.
    fn pid<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Option<u32>, Error>>;

    /// What tells this engine from any other, the same for every process and for as long as its containers are there; none if nothing does. By it a
    /// session of another engine is not taken for gone because this one does not list it.
    fn identity(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(std::future::ready(None))
    }

    /// Whether a read-only mount of a host directory can be expected to work, which the socket link needs.
    fn mounts_host_directories(&self) -> bool;
}

/// The engine's id of a container.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContainerId(pub String);

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get(..12).unwrap_or(&self.0))
    }
}

/// What to create. [`ContainerSpec::new`] gives the locked default; each field loosens or sets one thing.
#[derive(Clone)]
#[non_exhaustive]
pub struct ContainerSpec {
    /// The container's name; unique in the engine, which makes session names unique.
    pub name: String,
    /// The image.
    pub image: String,
    /// Arguments of the image's entry point.
    pub args: Vec<String>,
    /// Environment, as the user gave it. Never logged.
    pub env: Vec<(String, String)>,
    /// Labels to find it by. Values have at most 63 characters.
    pub labels: BTreeMap<String, String>,
    /// Longer values that nobody searches by. Docker keeps them as labels.
    pub annotations: BTreeMap<String, String>,
    /// Memory limit in bytes; swap is off.
    pub memory: u64,
    /// CPU limit in cores.
    pub cpus: f64,
    /// Limit of processes and threads.
    pub pids: u32,
    /// The network.
    pub network: Network,
    /// The engine's runtime, such as `runsc`; its default if none.
    pub runtime: Option<String>,
    /// What `/workspace` is.
    pub workspace: Workspace,
    /// The path by which the engine knows the directory of a [`Workspace::Host`], if it is another one.
    pub bind_directory: Option<PathBuf>,
    /// A host directory to mount read-only at `/run/cellblock-host`.
    pub host_directory: Option<PathBuf>,
}

impl ContainerSpec {
    /// The locked default: no network, 1 GiB of memory, one core, 256 processes, a `/workspace` of 256 MiB in memory.
    #[must_use]
    pub fn new(name: impl Into<String>, image: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            image: image.into(),
            args: Vec::new(),
            env: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            memory: 1 << 30,
            cpus: 1.0,
            pids: 256,
            network: Network::None,
            runtime: None,
            workspace: Workspace::Memory(256 << 20),
            bind_directory: None,
            host_directory: None,
        }
    }
}

impl fmt::Debug for ContainerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ContainerSpec")
            .field("name", &self.name)
            .field("image", &self.image)
            .field("args", &self.args)
            .field("env", &names)
            .field("memory", &self.memory)
            .field("cpus", &self.cpus)
            .field("pids", &self.pids)
            .field("network", &self.network)
            .field("runtime", &self.runtime)
            .field("workspace", &self.workspace)
            .field("bind_directory", &self.bind_directory)
            .finish_non_exhaustive()
    }
}

/// The container's network.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// Loopback only.
    None,
    /// The engine's default bridge.
    Bridge,
    /// A network of the engine by its name.
    Named(String),
}

/// What `/workspace` is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Workspace {
    /// A tmpfs of this many bytes, which counts as the container's memory.
    Memory(u64),
    /// An anonymous volume, removed with the container; bounded only where the engine can.
    Disk,
    /// A directory of this machine, which the container writes: nothing bounds how much, and it stays when the container goes.
    ///
    /// New files belong to the calling user, as whom everything in the container then runs; if that is root, to the directory's owner. So in a directory of
    /// root's, and only there, the container's processes are root, without any capability: keep such a directory closed to other users of the machine, who could
    /// run what is made there. The engine must run on this machine, and must not map its users to others. Where it knows the directory by another path,
    /// [`bind_dir`](crate::SessionBuilder::bind_dir) names that.
    Host(PathBuf),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exit {
    /// The exit code of its first process, if the engine still knew it.
    pub code: Option<i64>,
}

impl Exit {
    /// With the exit code, or none if the engine no longer knew it.
    #[must_use]
    pub fn new(code: Option<i64>) -> Self {
        Self { code }
    }
}

/// A listed container.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ContainerSummary {
    /// Its id.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// The image it was made from.
    pub image: String,
    /// The engine's word for its state: `created`, `running`, `paused`, `exited`, `dead`.
    pub state: String,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Labels and annotations.
    pub labels: BTreeMap<String, String>,
}

impl ContainerSummary {
    /// A container as an engine lists it, created now and without labels; set what is otherwise.
    #[must_use]
    pub fn new(id: ContainerId, name: impl Into<String>, image: impl Into<String>, state: impl Into<String>) -> Self {
        Self {
            id,
            name: name.into(),
            image: image.into(),
            state: state.into(),
            created: jiff::Timestamp::now().as_second(),
            labels: BTreeMap::new(),
        }
    }
}

/// A program running in a container.
#[non_exhaustive]
pub struct Exec {
    /// Its stdin; shut down to close it.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its stdout.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// The last 64 KiB of its stderr and then its exit code, once it has ended and stdout has been read to its end.
    pub end: BoxFuture<'static, Result<ExecEnd, Error>>,
}

impl Exec {
    /// A program that an engine has started.
    pub fn new(
        stdin: impl AsyncWrite + Send + Unpin + 'static,
        stdout: impl AsyncRead + Send + Unpin + 'static,
        end: impl Future<Output = Result<ExecEnd, Error>> + Send + 'static,
    ) -> Self {
        Self { stdin: Box::new(stdin), stdout: Box::new(stdout), end: Box::pin(end) }
    }
}

impl fmt::Debug for Exec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exec").finish_non_exhaustive()
    }
}

/// How a program that ran in a container ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExecEnd {
    /// Its exit code, if the engine still knew it.
    pub code: Option<i64>,
    /// The end of what it wrote to stderr.
    pub stderr: Vec<u8>,
}

impl ExecEnd {
    /// With the exit code, and the end of stderr.
    #[must_use]
    pub fn new(code: Option<i64>, stderr: Vec<u8>) -> Self {
        Self { code, stderr }
    }
}

/// How long an engine may take to answer one request.
pub(crate) const ENGINE_TIMEOUT: Duration = Duration::from_secs(120);
