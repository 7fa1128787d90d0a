//! A session's container, over an engine.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::directory::HostDirectory;
use super::registry;
use super::runtime;
use super::start::{greet, relay};
use super::usage::Cgroup;
use crate::execution::Usage;
use crate::files::Unfinished;
use crate::kernel::Container;
use crate::transport::{Bridge, Hello};
use crate::{ContainerId, Engine, Error};

/// How long an engine that was lost is left alone.
const ENGINE_RETRY: Duration = Duration::from_secs(1);

/// Implements the driver's view of a container. It removes the container and the host's directory with it.
#[derive(Debug)]
pub(super) struct SessionContainer {
    engine: Arc<dyn Engine>,
    id: ContainerId,
    /// The session's.
    name: String,
    directory: Option<HostDirectory>,
    unfinished: Unfinished,
    /// What this holder calls itself to the bridge.
    holder: String,
    cgroup: Option<Arc<Cgroup>>,
    ended: watch::Receiver<Option<String>>,
}

impl SessionContainer {
    /// Watches a container that is about to start or runs.
    pub(super) fn watch(
        engine: Arc<dyn Engine>,
        id: ContainerId,
        name: String,
        directory: HostDirectory,
        workdir: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let (sender, ended) = watch::channel(None);
        let (watched, watched_id) = (Arc::clone(&engine), id.clone());
        runtime::spawn(async move {
            let how = tokio::select! {
                how = end(watched.as_ref(), &watched_id) => how,
                () = sender.closed() => return,
            };
            let _ = sender.send(Some(how));
        })?;
        let holder = uuid::Uuid::new_v4().simple().to_string();
        Ok(Self {
            engine,
            id,
            name,
            directory: Some(directory),
            unfinished: Unfinished::new(workdir),
            holder,
            cgroup: None,
            ended,
        })
    }

    /// Learns where its usage is to be read, if it runs on this machine.
    pub(super) fn locate(&mut self, pid: Option<u32>) {
        self.cgroup = pid.and_then(|pid| Cgroup::of_container(pid, &self.id.0)).map(Arc::new);
    }

    pub(super) fn id(&self) -> &ContainerId {
        &self.id
    }

    pub(super) fn holder(&self) -> &str {
        &self.holder
    }

    pub(super) fn cgroup(&self) -> Option<Arc<Cgroup>> {
        self.cgroup.clone()
    }

    /// The uploads that are to be undone when it is gone.
    pub(super) fn unfinished(&self) -> &Unfinished {
        &self.unfinished
    }

    pub(super) fn directory(&self) -> Option<&HostDirectory> {
        self.directory.as_ref()
    }
}

impl Container for SessionContainer {
    fn ended(&self) -> BoxFuture<'_, String> {
        let mut ended = self.ended.clone();
        async move {
            let how = ended.wait_for(Option::is_some).await;
            how.ok().and_then(|how| how.clone()).unwrap_or_else(|| "the container's watch ended".to_owned())
        }
        .boxed()
    }

    fn relink(&self) -> BoxFuture<'_, Result<(Bridge, Hello), Error>> {
        // Works whichever link was lost.
        async { greet(relay(self.engine.as_ref(), &self.id).await?, &self.holder).await }.boxed()
    }

    fn paused(&self) -> BoxFuture<'static, Option<String>> {
        let (engine, id, name) = (Arc::clone(&self.engine), self.id.clone(), self.name.clone());
        async move { registry::paused(engine.as_ref(), &name, &id).await }.boxed()
    }

    fn remove(&mut self) -> BoxFuture<'_, Result<(), Error>> {
        async {
            self.engine.remove(&self.id).await?;
            let unfinished = self.unfinished.clone();
            let _ = tokio::task::spawn_blocking(move || unfinished.remove()).await;
            if let Some(directory) = self.directory.take() {
                directory.remove();
            }
            Ok(())
        }
        .boxed()
    }

    fn usage(&self) -> Usage {
        self.cgroup.as_deref().map(Cgroup::usage).unwrap_or_default()
    }
}

/// Waits for the container's end. An engine that is lost is asked again when it is back: the container may live on, and its link with it.
async fn end(engine: &dyn Engine, id: &ContainerId) -> String {
    loop {
        match engine.wait(id).await {
            Ok(exit) => return describe_end(exit.code),
            Err(error) => tracing::warn!(%error, "the engine was lost"),
        }
        tokio::time::sleep(ENGINE_RETRY).await;
    }
}

/// What the exit code of the bridge, PID 1, says.
fn describe_end(code: Option<i64>) -> String {
    match code {
        Some(0) => "the container was shut down".to_owned(),
        Some(10) => "the session ended because its controller had gone".to_owned(),
        Some(11) => "the session ended because it had been idle for its idle time".to_owned(),
        Some(12) => "the session ended because its maximum life was over".to_owned(),
        Some(137) => "the container was killed".to_owned(),
        Some(code) => format!("the container ended with exit code {code}"),
        None => "the container was removed".to_owned(),
    }
}
