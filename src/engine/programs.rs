//! Programs of the bridge that run in a session's container, beside its kernel.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::{ContainerId, Engine, Exec};
use crate::error::{Error, Kind};
use crate::transport::ProgramSocket;

/// Where the bridge is in the image.
pub(crate) const BRIDGE: &str = "/opt/cellblock/bin/bridge";

/// Starts them. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    engine: Arc<dyn Engine>,
    container: ContainerId,
    runtime: Handle,
    mounted: Option<PathBuf>,
}

impl Programs {
    /// In this container, which dials what listens in the `mounted` directory of the host, if it can. Connections to the engine belong to this
    /// runtime, not to a caller's, which may block or end.
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        container: ContainerId,
        runtime: Handle,
        mounted: Option<PathBuf>,
    ) -> Self {
        Self { engine, container, runtime, mounted }
    }

    /// A socket that a program can dial instead of using its stdin and stdout, where that can be.
    pub(crate) fn socket(&self) -> Option<ProgramSocket> {
        let socket = ProgramSocket::bind(self.mounted.as_ref()?);
        socket.inspect_err(|error| tracing::debug!(%error, "no socket for a program of the bridge")).ok()
    }

    pub(crate) fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Starts `bridge ARGS`. It sees the end of its stdin as soon as the [`Exec`] is dropped.
    pub(crate) async fn start(&self, args: &[&str]) -> Result<Exec, Error> {
        let (engine, container) = (Arc::clone(&self.engine), self.container.clone());
        let argv: Vec<String> = [BRIDGE].iter().chain(args).map(|&arg| arg.to_owned()).collect();
        let started = self.runtime.spawn(async move {
            let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
            engine.exec(&container, &argv).await
        });
        started.await.unwrap_or_else(|_| Err(Error::new(Kind::Io, "cannot start a program of the bridge")))
    }
}
