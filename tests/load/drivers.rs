//! An engine around another that remembers on which runtime it was called: the one that the sessions' drivers live on.

use std::sync::{Arc, OnceLock};

use cellblock::{ContainerId, ContainerSpec, ContainerSummary, Engine, Error, Exec, Exit};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// Of all sessions of a process.
static RUNTIME: OnceLock<Handle> = OnceLock::new();

/// How many tasks the sessions of this process have.
pub(crate) fn tasks() -> usize {
    RUNTIME.get().map_or(0, |runtime| runtime.metrics().num_alive_tasks())
}

#[derive(Debug)]
pub(crate) struct Drivers(pub(crate) Arc<dyn Engine>);

impl Engine for Drivers {
    fn create<'a>(&'a self, spec: &'a ContainerSpec) -> BoxFuture<'a, Result<ContainerId, Error>> {
        async {
            RUNTIME.get_or_init(Handle::current);
            self.0.create(spec).await
        }
        .boxed()
    }

    fn start<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.0.start(id)
    }

    fn wait<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Exit, Error>> {
        self.0.wait(id)
    }

    fn exec<'a>(&'a self, id: &'a ContainerId, argv: &'a [&'a str]) -> BoxFuture<'a, Result<Exec, Error>> {
        self.0.exec(id, argv)
    }

    fn kill<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.0.kill(id)
    }

    fn remove<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.0.remove(id)
    }

    fn list<'a>(&'a self, labels: &'a [(&'a str, &'a str)]) -> BoxFuture<'a, Result<Vec<ContainerSummary>, Error>> {
        self.0.list(labels)
    }

    fn pid<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        self.0.pid(id)
    }

    fn mounts_host_directories(&self) -> bool {
        self.0.mounts_host_directories()
    }
}
