//! Removes what dead controllers left, and nothing of anybody else.

use std::collections::HashSet;

use super::directory;
use super::registry::{self, Lease, SessionSummary};
use crate::{Engine, Error, Session};

impl Session {
    /// Removes this user's sessions that are of no use to anybody: owned ones whose controller is gone (of this machine, this boot and this pid
    /// namespace: of others nobody here can know), and detached ones whose container does not run; with their directories and spill files
    /// on the host. Returns the names.
    ///
    /// A new session does the first part by itself. Sessions of living controllers, and detached ones that run, are left alone.
    ///
    /// # Errors
    ///
    /// The engine was lost.
    pub async fn prune(engine: &dyn Engine) -> Result<Vec<String>, Error> {
        let sessions = registry::all(engine).await?;
        let mut removed = Vec::new();
        for session in &sessions {
            if is_abandoned(session) || (session.lease == Lease::Detached && is_over(session)) {
                engine.remove(&session.container).await?;
                directory::remove(&session.directory);
                removed.push(session.name.clone());
            }
        }
        sweep_host(engine).await?;
        Ok(removed)
    }
}

/// Removes what owned sessions of dead controllers left: their containers, directories and spill files.
pub(super) async fn sweep(engine: &dyn Engine) {
    match registry::all(engine).await {
        Ok(sessions) => {
            for session in sessions.iter().filter(|session| is_abandoned(session)) {
                tracing::info!(name = session.name, "removing a session whose controller has gone");
                if let Err(error) = engine.remove(&session.container).await {
                    tracing::warn!(%error, "it could not be removed");
                }
            }
        }
        Err(error) => tracing::warn!(%error, "sessions of dead controllers could not be looked for"),
    }
    if let Err(error) = sweep_host(engine).await {
        tracing::warn!(%error, "what is left of detached sessions could not be looked for");
        directory::sweep(|_, lease, _| lease == Lease::Owned);
    }
}

/// Removes what this machine has of owned sessions that nobody holds, and of detached ones that this engine does not know any more. One of
/// another engine may live there.
async fn sweep_host(engine: &dyn Engine) -> Result<(), Error> {
    // Listed now: a session that was started since the last look may have been let go already.
    let known: HashSet<String> = registry::all(engine).await?.into_iter().map(|session| session.directory).collect();
    let identity = engine.identity().await;
    let is_ours = |other: &str| identity.as_deref() == Some(other);
    directory::sweep(|id, lease, engine| lease == Lease::Owned || (is_ours(engine) && !known.contains(id)));
    Ok(())
}

/// An owned session whose controller is certainly gone. Its lease inside may have some seconds left, or, where the controller died
/// before the container was started, will never come.
fn is_abandoned(session: &SessionSummary) -> bool {
    let Some(owner) = &session.owner else { return false };
    session.lease == Lease::Owned
        && owner.is_of_this_place()
        && owner.is_gone()
        && !directory::is_held(&session.directory)
}

/// A container that will not run again: it is removed by the engine when it ends, unless the engine was killed in between, or it
/// never was started.
fn is_over(session: &SessionSummary) -> bool {
    matches!(session.state.as_str(), "created" | "exited" | "dead" | "stopped")
        && !directory::is_held(&session.directory)
}
