//! An engine around another that remembers what it was asked to make.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellblock::{ContainerId, ContainerSpec, ContainerSummary, Engine, Error, Exec, Exit};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

#[derive(Debug)]
pub(crate) struct Recording {
    inner: Arc<dyn Engine>,
    created: Mutex<Vec<(ContainerId, ContainerSpec)>>,
    execs: AtomicUsize,
}

impl Recording {
    pub(crate) fn new(inner: Arc<dyn Engine>) -> Self {
        Self { inner, created: Mutex::default(), execs: AtomicUsize::new(0) }
    }

    /// What was created, in order.
    pub(crate) fn created(&self) -> Vec<(ContainerId, ContainerSpec)> {
        self.lock().clone()
    }

    /// The only container that was created.
    pub(crate) fn only(&self) -> ContainerId {
        let created = self.created();
        assert_eq!(created.len(), 1, "{created:?}");
        created[0].0.clone()
    }

    /// How many programs were started in containers: none where the socket link is used.
    pub(crate) fn execs(&self) -> usize {
        self.execs.load(Ordering::Relaxed)
    }

    pub(crate) async fn remove_all(&self) {
        for (id, _) in self.created() {
            let _ = self.inner.remove(&id).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(ContainerId, ContainerSpec)>> {
        self.created.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Recording {
    fn create<'a>(&'a self, spec: &'a ContainerSpec) -> BoxFuture<'a, Result<ContainerId, Error>> {
        async {
            let mut labelled = spec.clone();
            labelled.labels.insert("cellblock.test".to_owned(), "session".to_owned());
            let id = self.inner.create(&labelled).await?;
            self.lock().push((id.clone(), spec.clone()));
            Ok(id)
        }
        .boxed()
    }

    fn start<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.inner.start(id)
    }

    fn wait<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Exit, Error>> {
        self.inner.wait(id)
    }

    fn exec<'a>(&'a self, id: &'a ContainerId, argv: &'a [&'a str]) -> BoxFuture<'a, Result<Exec, Error>> {
        self.execs.fetch_add(1, Ordering::Relaxed);
        self.inner.exec(id, argv)
    }

    fn kill<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.inner.kill(id)
    }

    fn remove<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.inner.remove(id)
    }

    fn list<'a>(&'a self, labels: &'a [(&'a str, &'a str)]) -> BoxFuture<'a, Result<Vec<ContainerSummary>, Error>> {
        self.inner.list(labels)
    }

    fn pid<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        self.inner.pid(id)
    }

    fn identity(&self) -> BoxFuture<'_, Option<String>> {
        self.inner.identity()
    }

    fn mounts_host_directories(&self) -> bool {
        self.inner.mounts_host_directories()
    }
}
