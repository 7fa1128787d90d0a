//! The engine is the registry of sessions: names are unique there, and labels tell whose they are.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::process::getuid;
use tokio::time::timeout;

use super::builder::check_name;
use super::owner::Owner;
use super::{Session, directory};
use crate::error::{Error, Kind};
use crate::{ContainerId, ContainerSummary, Engine, Workspace};

const LABEL_SESSION: &str = "cellblock.session";
const LABEL_UID: &str = "cellblock.uid";
const LABEL_LEASE: &str = "cellblock.lease";
const LABEL_DIRECTORY: &str = "cellblock.directory";
const LABEL_EXPIRES: &str = "cellblock.expires";
const ANNOTATION_OWNER: &str = "cellblock.owner";
const ANNOTATION_WORKDIR: &str = "cellblock.workdir";
const LABEL_LINK: &str = "cellblock.link";
const LINK_SOCKET: &str = "socket";
/// An engine that has not told a container's state by then cannot tell.
const STATE_WAIT: Duration = Duration::from_secs(2);

/// What ends a session when its controller goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lease {
    /// Ends 10 s after its controller.
    Owned,
    /// Ends by idle time or maximum life.
    Detached,
}

impl Lease {
    pub(super) fn of_word(word: &str) -> Option<Self> {
        [Self::Owned, Self::Detached].into_iter().find(|lease| lease.word() == word)
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Owned => "owned",
            Self::Detached => "detached",
        }
    }
}

/// A session as the engine lists it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Its name.
    pub name: String,
    /// Its container's id.
    pub container: ContainerId,
    /// Its image.
    pub image: String,
    /// The engine's word for the container's state.
    pub state: String,
    /// Owned or detached.
    pub lease: Lease,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    pub(super) directory: String,
    pub(super) expires: SystemTime,
    /// Who started it, if that can be read.
    pub(super) owner: Option<Owner>,
    /// Whether the host's directory is mounted, so that the bridge can dial.
    pub(super) mounted: bool,
    /// The work directory, if it is the host's.
    pub(super) workdir: Option<PathBuf>,
}

impl Session {
    /// Lists this user's sessions on an engine, by name.
    ///
    /// # Errors
    ///
    /// The engine was lost.
    pub async fn list(engine: &dyn Engine) -> Result<Vec<SessionSummary>, Error> {
        all(engine).await
    }

    /// Ends a session by its name, whoever holds it.
    ///
    /// # Errors
    ///
    /// There is none of that name, or the engine was lost.
    pub async fn remove(engine: &dyn Engine, name: &str) -> Result<(), Error> {
        let session = find(engine, name).await?;
        engine.remove(&session.container).await?;
        directory::remove(&session.directory);
        Ok(())
    }
}

/// This user's sessions, by name.
pub(super) async fn all(engine: &dyn Engine) -> Result<Vec<SessionSummary>, Error> {
    let uid = uid();
    let containers = engine.list(&[(LABEL_UID, &uid)]).await?;
    let mut sessions: Vec<_> = containers.into_iter().filter_map(summary).collect();
    sessions.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(sessions)
}

/// Says who starts a session, and where it works on the host, for whoever finds it without its controller.
pub(super) fn annotations(workspace: &Workspace) -> BTreeMap<String, String> {
    let owner = Owner::current().map(|owner| (ANNOTATION_OWNER.to_owned(), owner.to_string()));
    let workdir = if let Workspace::Host(path) = workspace { path.to_str() } else { None };
    owner.into_iter().chain(workdir.map(|path| (ANNOTATION_WORKDIR.to_owned(), path.to_owned()))).collect()
}

/// The container's name, if the engine says that it is paused; none too if the engine cannot tell in time.
pub(super) async fn paused(engine: &dyn Engine, name: &str, container: &ContainerId) -> Option<String> {
    let found = timeout(STATE_WAIT, find(engine, name)).await.ok()?.ok()?;
    (found.container == *container && found.state == "paused").then(|| container_name(name))
}

/// Finds a session by its name.
pub(super) async fn find(engine: &dyn Engine, name: &str) -> Result<SessionSummary, Error> {
    check_name(name)?;
    let uid = uid();
    let containers = engine.list(&[(LABEL_UID, &uid), (LABEL_SESSION, name)]).await?;
    containers.into_iter().find_map(summary).ok_or_else(|| {
        Error::new(Kind::NoSuchSession, format!("there is no session named {name}")).with_hint(format!(
            "`cellblock session list` shows those there are; `cellblock session start {name}` starts one"
        ))
    })
}

fn summary(container: ContainerSummary) -> Option<SessionSummary> {
    let label = |name| container.labels.get(name).cloned();
    Some(SessionSummary {
        name: label(LABEL_SESSION)?,
        lease: Lease::of_word(&label(LABEL_LEASE)?)?,
        directory: label(LABEL_DIRECTORY).filter(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric()))?,
        expires: SystemTime::UNIX_EPOCH + Duration::from_secs(label(LABEL_EXPIRES)?.parse().ok()?),
        owner: label(ANNOTATION_OWNER).and_then(|owner| Owner::parse(&owner)),
        mounted: label(LABEL_LINK).is_some_and(|link| link == LINK_SOCKET),
        workdir: label(ANNOTATION_WORKDIR).map(PathBuf::from).filter(|path| path.is_absolute()),
        container: container.id,
        image: container.image,
        state: container.state,
        created: container.created,
    })
}

/// Marks a container that has the host's directory mounted.
pub(super) fn mark_mounted(labels: &mut BTreeMap<String, String>) {
    labels.insert(LABEL_LINK.to_owned(), LINK_SOCKET.to_owned());
}

/// The name of a session's container: the engine refuses a second one, which makes names unique atomically.
pub(super) fn container_name(name: &str) -> String {
    format!("cellblock-{}-{name}", uid())
}

pub(super) fn labels(name: &str, lease: Lease, directory: &str, expires: SystemTime) -> BTreeMap<String, String> {
    let expires = expires.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    [
        (LABEL_SESSION, name),
        (LABEL_UID, &uid()),
        (LABEL_LEASE, lease.word()),
        (LABEL_DIRECTORY, directory),
        (LABEL_EXPIRES, &expires.to_string()),
    ]
    .into_iter()
    .map(|(label, value)| (label.to_owned(), value.to_owned()))
    .collect()
}

fn uid() -> String {
    getuid().as_raw().to_string()
}
