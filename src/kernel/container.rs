//! The container, as far as the driver sees it.

use futures_util::future::BoxFuture;

use crate::Error;
use crate::execution::Usage;

/// Where the kernel runs. The session implements it over an engine.
pub(crate) trait Container: Send {
    /// Returns once the container has ended, with a sentence that says how.
    ///
    /// Cancel safe: it is asked again after other events.
    fn ended(&mut self) -> BoxFuture<'_, String>;

    /// Kills and removes it.
    fn remove(&mut self) -> BoxFuture<'_, Result<(), Error>>;

    /// What it has used since its start. `cpu` counts from the start; the driver takes differences.
    fn usage(&self) -> Usage;
}
