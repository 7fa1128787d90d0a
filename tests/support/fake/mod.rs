//! The fake tier: an engine in memory, whose containers hold a bridge and a kernel written in Rust. No Python, no
//! container engine, no files. What it speaks was written apart from cellblock's own code, after the protocols' texts.
//!
//! [`python`] says which code its kernel understands.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use cellblock::{ContainerId, ContainerSpec, ContainerSummary, Engine, Error, Exec, ExecEnd, Exit};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::Runtime;
use uuid::Uuid;

mod container;
mod hostile;
mod interpreter;
mod kernel;
mod python;
mod relay;
mod wire;
mod zmtp;

pub(crate) use container::{Container, Status};
pub(crate) use hostile::Greeting;
pub(crate) use kernel::{End, Kernel};

/// What tests can ask of the fakes. A test target may ask for less.
const _: () = {
    let _ = (FakeEngine::new, FakeEngine::greeting, FakeEngine::containers, FakeEngine::container, MISSING_IMAGE);
    let _ = FakeEngine::refuse_removals;
    let _ =
        (Container::interrupts, Container::violations, Container::set_greeting, Container::kernel, Container::exited);
    let _ = (Container::forge_files, Container::lose_at_starts, Container::starts_to_lose);
    let _ = (Container::lose_link, Container::deadlines);
    let _ = (Kernel::end, Kernel::is_busy, [End::Code(0), End::Signal(9), End::OutOfMemory]);
    let _ = [Greeting::Honest, Greeting::Slow, Greeting::Silent, Greeting::Http, Greeting::Old];
    let _ = [Status::Created, Status::Running, Status::Exited(None)];
};

/// The image that the engine does not have.
pub(crate) const MISSING_IMAGE: &str = "missing";

/// Fakes live on a thread of their own: like a real engine they go on when a test's runtime blocks or ends.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("fakes")
        .enable_all()
        .build()
        .expect("a runtime for the fakes")
});

/// An engine in memory.
#[derive(Default)]
pub(crate) struct FakeEngine {
    greeting: Greeting,
    refuses_removals: AtomicBool,
    containers: Mutex<BTreeMap<String, Arc<Container>>>,
}

impl FakeEngine {
    /// An engine without containers.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// An engine in whose containers the kernel's sockets greet like this.
    pub(crate) fn greeting(greeting: Greeting) -> Arc<Self> {
        Arc::new(Self { greeting, ..Self::default() })
    }

    /// Whether it fails to remove containers from now on.
    pub(crate) fn refuse_removals(&self, refuse: bool) {
        self.refuses_removals.store(refuse, Ordering::SeqCst);
    }

    /// The containers that are not removed, by id.
    pub(crate) fn containers(&self) -> Vec<Arc<Container>> {
        self.lock().values().cloned().collect()
    }

    /// The one container there is.
    ///
    /// # Panics
    ///
    /// There is none, or more than one.
    pub(crate) fn container(&self) -> Arc<Container> {
        let containers = self.containers();
        assert_eq!(containers.len(), 1, "containers");
        Arc::clone(&containers[0])
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Container>>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &ContainerId) -> Option<Arc<Container>> {
        self.lock().get(&id.0).cloned()
    }
}

impl fmt::Debug for FakeEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeEngine").finish_non_exhaustive()
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    std::future::ready(value).boxed()
}

impl Engine for FakeEngine {
    fn create<'a>(&'a self, spec: &'a ContainerSpec) -> BoxFuture<'a, Result<ContainerId, Error>> {
        let mut containers = self.lock();
        ready(if spec.image == MISSING_IMAGE {
            Err(Error::image_missing(&spec.image))
        } else if containers.values().any(|container| container.spec.name == spec.name) {
            Err(Error::name_taken(&spec.name))
        } else {
            let id = Uuid::new_v4().simple().to_string();
            containers.insert(id.clone(), Container::new(spec.clone(), self.greeting));
            Ok(ContainerId(id))
        })
    }

    fn start<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        let _runtime = RUNTIME.enter();
        ready(match self.find(id) {
            Some(container) => {
                container.start();
                Ok(())
            }
            None => Err(Error::engine("cannot start a container", "there is none of that id")),
        })
    }

    fn wait<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Exit, Error>> {
        let container = self.find(id);
        async move {
            Ok(Exit::new(match container {
                Some(container) => container.exited().await,
                None => None,
            }))
        }
        .boxed()
    }

    fn exec<'a>(&'a self, id: &'a ContainerId, argv: &'a [&'a str]) -> BoxFuture<'a, Result<Exec, Error>> {
        let Some(container) = self.find(id).filter(|container| container.status() == Status::Running) else {
            return ready(Err(Error::engine("cannot run a program", "its container does not run")));
        };
        let (stdin, theirs_in) = tokio::io::duplex(64 * 1024);
        let (stdout, theirs_out) = tokio::io::duplex(64 * 1024);
        let end = match argv {
            ["/opt/cellblock/bin/bridge", "relay"] => {
                let relay = RUNTIME.spawn(relay::run(container, theirs_in, theirs_out));
                async move { Ok(ExecEnd::new(relay.await.ok(), Vec::new())) }.boxed()
            }
            ["/opt/cellblock/bin/bridge", "files"] => {
                let files = RUNTIME.spawn(async move { container.files(theirs_in, theirs_out).await });
                async move { Ok(ExecEnd::new(files.await.ok(), Vec::new())) }.boxed()
            }
            _ => {
                let message = format!("{argv:?}: not found\n").into_bytes();
                ready(Ok(ExecEnd::new(Some(127), message)))
            }
        };
        ready(Ok(Exec::new(stdin, stdout, end)))
    }

    fn kill<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        if let Some(container) = self.find(id) {
            container.exit(Some(137));
        }
        ready(Ok(()))
    }

    fn remove<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        if self.refuses_removals.load(Ordering::SeqCst) {
            return ready(Err(Error::engine("cannot remove a container", "it is told not to")));
        }
        let container = self.lock().remove(&id.0);
        if let Some(container) = container {
            container.exit(Some(137));
        }
        ready(Ok(()))
    }

    fn list<'a>(&'a self, labels: &'a [(&'a str, &'a str)]) -> BoxFuture<'a, Result<Vec<ContainerSummary>, Error>> {
        let matches = |container: &Container| {
            labels.iter().all(|(name, value)| container.spec.labels.get(*name).is_some_and(|label| label == value))
        };
        let containers = self.lock();
        let summaries = containers.iter().filter(|(_, container)| matches(container)).map(|(id, container)| {
            let state = match container.status() {
                Status::Created => "created",
                Status::Running => "running",
                Status::Exited(_) => "exited",
            };
            let spec = &container.spec;
            let mut summary = ContainerSummary::new(ContainerId(id.clone()), &spec.name, &spec.image, state);
            summary.labels = spec.labels.clone();
            summary.labels.extend(spec.annotations.clone());
            summary
        });
        ready(Ok(summaries.collect()))
    }

    fn pid<'a>(&'a self, _id: &'a ContainerId) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        ready(Ok(None))
    }

    fn mounts_host_directories(&self) -> bool {
        false
    }
}
