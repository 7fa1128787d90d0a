//! The container, as far as the driver sees it.

use futures_util::future::BoxFuture;

use crate::Error;
use crate::execution::Usage;
use crate::transport::{Bridge, Hello};

/// Where the kernel runs. The session implements it over an engine.
pub(crate) trait Container: Send + Sync {
    /// Returns once the container has ended, with a sentence that says how.
    ///
    /// Cancel safe: it is asked again after other events.
    fn ended(&self) -> BoxFuture<'_, String>;

    /// Reaches its bridge by a new link, in place of one that was lost.
    fn relink(&self) -> BoxFuture<'_, Result<(Bridge, Hello), Error>>;

    /// Its name, if the engine says that it is paused; none too if the engine cannot tell. Does not take long.
    fn paused(&self) -> BoxFuture<'static, Option<String>>;

    /// Kills and removes it.
    fn remove(&mut self) -> BoxFuture<'_, Result<(), Error>>;

    /// What it has used since its start. `cpu` counts from the start; the driver takes differences.
    fn usage(&self) -> Usage;
}
