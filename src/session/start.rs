//! From a description to a running session: container, link, kernel, driver.

use std::future::Future;
use std::sync::{Arc, Mutex, Once, OnceLock};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::Instrument;

use super::builder::{Defaults, LinkPolicy, SessionBuilder, engine_or_default};
use super::container::SessionContainer;
use super::directory::{self, HostDirectory};
use super::registry::{Lease, mark_mounted};
use super::script::Place;
use super::{Inner, Session, reaper, runtime, workdir};
use crate::engine::{BRIDGE, Programs};
use crate::error::{Error, Kind};
use crate::execution::SpillDirectory;
use crate::kernel::{Command, Container, Driver, Handle, Settings};
use crate::transport::{Bridge, BridgeError, Hello, Link, SocketListener, relay_link};
use crate::{ContainerId, ContainerSpec, Engine, Workspace};

/// A bridge that can reach the host's socket dials it within milliseconds of its start; a slow machine gets this long.
const DIAL_WAIT: Duration = Duration::from_secs(3);
/// The bridge ends the container at its maximum life; the driver does so from outside, should the bridge not.
const EXPIRY_SLACK: Duration = Duration::from_secs(5);
const GREETING_WAIT: Duration = Duration::from_secs(30);
/// Commands on their way to the driver; it takes them at once, so that this only evens out bursts.
const COMMANDS: usize = 64;

pub(super) async fn start(builder: SessionBuilder) -> Result<Session, Error> {
    let engine = engine_or_default(builder.engine.clone()).await?;
    let name = builder.name.clone().unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string().split_off(20));
    let span = tracing::info_span!("session", name);
    on_runtime(launch(engine, builder, name).instrument(span), |session| async move { session.stop().await }).await
}

/// Runs to its end whatever becomes of the caller; a session that nobody takes any more is given up.
pub(super) async fn on_runtime<G>(
    launch: impl Future<Output = Result<Session, Error>> + Send + 'static,
    give_up: impl FnOnce(Session) -> G + Send + 'static,
) -> Result<Session, Error>
where
    G: Future<Output = Result<(), Error>> + Send,
{
    let (sender, receiver) = oneshot::channel();
    runtime::spawn(async move {
        if let Err(Ok(session)) = sender.send(launch.await) {
            let _ = give_up(session).await;
        }
    })?;
    let lost =
        |_| Error::new(Kind::Start, "cannot start the session").with_source("the thread of the sessions has ended");
    receiver.await.map_err(lost)?
}

async fn launch(engine: Arc<dyn Engine>, builder: SessionBuilder, name: String) -> Result<Session, Error> {
    builder.specification(&name, "")?;
    sweep_once(&engine)?;
    let directory = HostDirectory::create(builder.lease, engine.as_ref()).await?;
    let (spec, expires) = builder.specification(&name, directory.id())?;
    let listener = listener(&builder, engine.as_ref(), &directory)?;
    let (id, listener) = match create(engine.as_ref(), &spec, &directory, listener, builder.link).await {
        Ok(created) => created,
        Err(error) => {
            directory.remove();
            return Err(error);
        }
    };
    let workdir = if let Workspace::Host(path) = &spec.workspace { Some(path.clone()) } else { None };
    let mut container = SessionContainer::watch(Arc::clone(&engine), id.clone(), name.clone(), directory, workdir)?;
    let holder = container.holder().to_owned();
    // Its refusal says more than the end of the container that comes with it.
    if let Err(error) = engine.start(&id).await {
        let _ = container.remove().await;
        return Err(error);
    }
    let started = async {
        let pid = engine.pid(&id).await?;
        let link = dial(engine.as_ref(), &id, listener.as_ref(), pid, builder.link).await?;
        Ok((pid, greet(link, &holder).await?))
    };
    let started = tokio::select! {
        started = started => started,
        how = container.ended() => Err(Error::new(Kind::Start, format!("cannot start a session in the image {}", spec.image))
            .with_source(how)
            .with_hint("`cellblock image build` builds an image that works")),
    };
    match started {
        Ok((pid, greeted)) => {
            container.locate(pid);
            let about = About { name, image: spec.image, lease: builder.lease, expires, defaults: builder.defaults };
            let session = run(engine, container, greeted, about).await?;
            if let (Workspace::Host(here), Some(there)) = (&spec.workspace, &spec.bind_directory)
                && let Err(error) = workdir::check_is_shared(&session, here, there).await
            {
                let _ = session.stop().await;
                return Err(error);
            }
            Ok(session)
        }
        Err(error) => {
            let _ = container.remove().await;
            Err(error)
        }
    }
}

/// What dead controllers left is looked for once in a process, beside its first start.
fn sweep_once(engine: &Arc<dyn Engine>) -> Result<(), Error> {
    static SWEPT: Once = Once::new();
    let mut first = false;
    SWEPT.call_once(|| first = true);
    if first {
        let engine = Arc::clone(engine);
        runtime::spawn(async move { reaper::sweep(engine.as_ref()).await })?;
    }
    Ok(())
}

fn listener(
    builder: &SessionBuilder,
    engine: &dyn Engine,
    directory: &HostDirectory,
) -> Result<Option<SocketListener>, Error> {
    match builder.link {
        LinkPolicy::Relay => return Ok(None),
        LinkPolicy::Auto if !engine.mounts_host_directories() => return Ok(None),
        LinkPolicy::Auto | LinkPolicy::Socket => {}
    }
    SocketListener::bind(&directory.mounted(), directory.path())
        .map(Some)
        .map_err(|error| Error::new(Kind::Io, "cannot listen in the session's directory").with_source(error))
}

/// Creates the container, with the directory mounted that has the listener, if there is one. An engine whose files are not ours, since we are in a container
/// ourselves, does not find it: no socket leads there then.
async fn create(
    engine: &dyn Engine,
    spec: &ContainerSpec,
    directory: &HostDirectory,
    listener: Option<SocketListener>,
    policy: LinkPolicy,
) -> Result<(ContainerId, Option<SocketListener>), Error> {
    if listener.is_some() {
        let mut mounted = spec.clone();
        mounted.host_directory = Some(directory.mounted());
        mark_mounted(&mut mounted.labels);
        match engine.create(&mounted).await {
            Ok(id) => return Ok((id, listener)),
            Err(error) if error.kind() == Kind::Mount && policy == LinkPolicy::Auto => {
                tracing::debug!(%error, "the engine has other files: no socket leads to the container");
            }
            Err(error) => return Err(error),
        }
    }
    Ok((engine.create(spec).await?, None))
}

/// Makes the link: the host's socket if the bridge dials it, else the relay.
pub(super) async fn dial(
    engine: &dyn Engine,
    id: &ContainerId,
    listener: Option<&SocketListener>,
    pid: Option<u32>,
    policy: LinkPolicy,
) -> Result<Link, Error> {
    if let (Some(listener), Some(pid)) = (listener, pid) {
        match timeout(DIAL_WAIT, listener.accept(pid)).await {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(error)) => tracing::debug!(%error, "the socket link failed"),
            Err(_) => tracing::debug!("the bridge did not dial the host's socket"),
        }
    }
    if policy == LinkPolicy::Socket {
        return Err(Error::new(Kind::Start, "cannot reach the container over a socket of the host")
            .with_hint("the engine may run on another machine or in a sandbox; the relay link works everywhere"));
    }
    relay(engine, id).await
}

pub(super) async fn relay(engine: &dyn Engine, id: &ContainerId) -> Result<Link, Error> {
    let exec = engine.exec(id, &[BRIDGE, "relay"]).await?;
    Ok(relay_link(exec.stdin, exec.stdout))
}

pub(super) async fn greet(link: Link, holder: &str) -> Result<(Bridge, Hello), Error> {
    Bridge::greet(link, holder, GREETING_WAIT).await.map_err(|error| match error {
        BridgeError::Held => Error::new(Kind::Held, "cannot take hold of the session").with_source(error),
        error => Error::new(Kind::Start, "cannot reach the bridge in the container").with_source(error),
    })
}

/// What is known of a session besides its container.
pub(super) struct About {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) lease: Lease,
    pub(super) expires: SystemTime,
    pub(super) defaults: Defaults,
}

/// Starts the driver over a bridge that was greeted.
pub(super) async fn run(
    engine: Arc<dyn Engine>,
    container: SessionContainer,
    greeted: (Bridge, Hello),
    about: About,
) -> Result<Session, Error> {
    let About { name, image, lease, expires, defaults } = about;
    let Some((private, spill)) =
        container.directory().map(|directory| (directory.path().to_owned(), directory::spill_path(directory.id())))
    else {
        return Err(Error::new(Kind::Gone, "cannot start the session"));
    };
    let spills = spill
        .inspect_err(|error| tracing::warn!(%error, "long outputs will not be kept whole"))
        .ok()
        .map(SpillDirectory::new);
    let (cgroup, unfinished) = (container.cgroup(), container.unfinished().clone());
    let settings = Settings {
        session: greeted.1.session.clone(),
        private,
        timeout: defaults.timeout,
        grace: defaults.grace,
        ready: defaults.ready,
        detached: lease == Lease::Detached,
        expires: tokio::time::Instant::now()
            + expires.duration_since(SystemTime::now()).unwrap_or_default()
            + EXPIRY_SLACK,
        limits: defaults.limits,
        spill: spills.clone(),
    };
    let (sender, commands) = mpsc::channel::<Command>(COMMANDS);
    let ended = Arc::new(OnceLock::new());
    let mounted = container.directory().filter(|_| greeted.0.has_dialled()).map(HostDirectory::mounted);
    let programs = Programs::new(engine, container.id().clone(), tokio::runtime::Handle::current(), mounted);
    let attached = greeted.1.kernel.is_some() || greeted.1.last_exit.is_some();
    match Driver::connect(settings, container, greeted, commands, Arc::clone(&ended)).await {
        Ok((driver, recovered)) => {
            runtime::spawn(driver.run().in_current_span())?;
            let handle = Handle::new(sender, ended);
            let session = handle.downgrade();
            Ok(Session(Arc::new(Inner {
                name,
                handle,
                lease,
                cgroup,
                unfinished,
                place: Arc::new(Place { programs, image, defaults, spills, session }),
                recovered: Mutex::new(recovered),
            })))
        }
        Err(failed) => {
            let (mut container, error) = *failed;
            // A session that others started is left as it is.
            if !attached {
                let _ = container.remove().await;
            }
            Err(error)
        }
    }
}
