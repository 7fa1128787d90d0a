//! Docker, and Podman by Docker's API.

mod create;
mod exec;
mod failure;
mod inspect;
mod limits;
mod list;
mod user;
mod wait;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker as Client;
use bollard::query_parameters::{
    KillContainerOptions, RemoveContainerOptionsBuilder, StartContainerOptions, WaitContainerOptionsBuilder,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use serde::Deserialize;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout_at};

pub(super) use self::failure::{failed, is_status};
pub(super) use self::inspect::reread;
use super::discover::Surroundings;
use super::{ContainerId, ContainerSpec, ContainerSummary, ENGINE_TIMEOUT, Engine, Exec, Exit};
use crate::Error;
use crate::error::Kind;

/// How long a removal that is under way is waited for.
const REMOVAL: Duration = Duration::from_secs(10);
/// How long what an engine gave up is asked for again: nobody is to learn of a container's end much later for it.
const BUSY: Duration = Duration::from_secs(1);
const REMOVAL_RETRY: Duration = Duration::from_millis(200);

/// A Docker engine, or a Podman that answers Docker's API. A clone is the same connection.
///
/// Requests carry no API version, so that old and new engines answer alike; nothing newer than API 1.41 is asked for.
#[derive(Clone)]
pub struct Docker {
    client: Client,
    address: Arc<str>,
    is_podman: bool,
    abilities: Arc<OnceCell<limits::Abilities>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Version {
    api_version: String,
    #[serde(default)]
    components: Vec<Component>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Component {
    #[serde(default)]
    name: String,
}

impl Version {
    /// Docker 20.10's.
    const NEEDED: &str = "1.41";

    fn is_new_enough(&self) -> bool {
        let parse = |text: &str| {
            let (major, minor) = text.split_once('.')?;
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        };
        parse(&self.api_version) >= parse(Self::NEEDED)
    }
}

impl Docker {
    /// Finds an engine and connects to it.
    ///
    /// The first of these that is set is the choice, and an error if it does not answer: `DOCKER_HOST`, `DOCKER_CONTEXT`,
    /// `CONTAINER_HOST`, the current context of Docker's configuration. If none is, the first that answers of Docker's
    /// socket, rootless Docker's, rootless Podman's and Podman's.
    ///
    /// # Errors
    ///
    /// Nothing answers: the error's text lists all that was tried and why each failed, its hint says what to do.
    pub async fn connect() -> Result<Self, Error> {
        Surroundings::of_process().connect().await
    }

    /// Connects to the engine at an address: `unix:///path/of/the.sock`, or `tcp://host:port` for plain HTTP.
    ///
    /// # Errors
    ///
    /// The address is not of these forms, nothing answers there, or what answers is not a container engine.
    pub async fn connect_to(address: &str) -> Result<Self, Error> {
        let attempted = || format!("cannot reach a container engine at {address}");
        let unreachable = |error| Error::new(Kind::EngineUnreachable, attempted()).with_source(error);
        let client = Client::connect_with_host(address).map_err(|error| match error {
            bollard::errors::Error::UnsupportedURISchemeError { .. } => {
                Error::new(Kind::Usage, attempted()).with_hint("use unix:///path/of/the.sock, or tcp://host:port")
            }
            error => unreachable(error),
        })?;
        let client = client.with_timeout(ENGINE_TIMEOUT);
        let version: Version = reread(client.version().await).map_err(unreachable)?;
        if !version.is_new_enough() {
            return Err(Error::new(Kind::EngineUnreachable, attempted())
                .with_source(format!("it speaks API {}, and {} is needed", version.api_version, Version::NEEDED))
                .with_hint("Docker 20.10 and Podman 4 are the oldest that will do"));
        }
        let is_podman = version.components.iter().any(|component| component.name.starts_with("Podman"));
        Ok(Self { client, address: address.into(), is_podman, abilities: Arc::default() })
    }

    /// The address that it is connected to.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    fn is_local(&self) -> bool {
        self.address.starts_with("unix://")
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), Error> {
        let attempted = format!("cannot start container {id}");
        match self.client.start_container(&id.0, None::<StartContainerOptions>).await {
            Ok(()) => Ok(()),
            Err(error) if failure::is_missing_network(&error) => {
                Err(failed(Kind::Usage, attempted, error).with_hint(failure::NETWORK_HINT))
            }
            Err(error) if failure::is_missing_program(&error) => {
                Err(failed(Kind::Start, attempted, error).with_hint(failure::PROGRAM_HINT))
            }
            Err(error) if is_status(&error, 404) => Err(failed(Kind::Gone, attempted, error)),
            Err(error) => Err(failed(Kind::Start, attempted, error)),
        }
    }

    async fn kill_container(&self, id: &ContainerId) -> Result<(), Error> {
        match self.client.kill_container(&id.0, None::<KillContainerOptions>).await {
            Ok(()) => Ok(()),
            Err(error) if is_status(&error, 404) || is_status(&error, 409) => Ok(()),
            Err(error) => Err(failed(Kind::Engine, format!("cannot kill container {id}"), error)),
        }
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), Error> {
        let (until, busy_until) = (Instant::now() + REMOVAL, Instant::now() + BUSY);
        loop {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            let error = match self.client.remove_container(&id.0, Some(options)).await {
                Ok(()) => return Ok(()),
                Err(error) if is_status(&error, 404) => return Ok(()),
                Err(error) => error,
            };
            let under_way = is_status(&error, 409);
            if under_way {
                // Its name is free once that is done.
                let options = WaitContainerOptionsBuilder::new().condition("removed").build();
                let mut removed = Box::pin(self.client.wait_container(&id.0, Some(options)));
                let _ = timeout_at(until, removed.next()).await;
            }
            // What is busy for a moment makes an engine give up, by itself or for us: it is dead then until somebody asks again.
            let until = if under_way { until } else { busy_until };
            match (under_way || is_status(&error, 500)) && Instant::now() + REMOVAL_RETRY < until {
                true => sleep(REMOVAL_RETRY).await,
                false if under_way => return Ok(()),
                false => return Err(failed(Kind::Engine, format!("cannot remove container {id}"), error)),
            }
        }
    }
}

impl fmt::Debug for Docker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Docker").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Engine for Docker {
    fn create<'a>(&'a self, spec: &'a ContainerSpec) -> BoxFuture<'a, Result<ContainerId, Error>> {
        self.create_container(spec).boxed()
    }

    fn start<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.start_container(id).boxed()
    }

    fn wait<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Exit, Error>> {
        self.wait_container(id).boxed()
    }

    fn exec<'a>(&'a self, id: &'a ContainerId, argv: &'a [&'a str]) -> BoxFuture<'a, Result<Exec, Error>> {
        self.exec_in_container(id, argv).boxed()
    }

    fn kill<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.kill_container(id).boxed()
    }

    fn remove<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<(), Error>> {
        self.remove_container(id).boxed()
    }

    fn list<'a>(&'a self, labels: &'a [(&'a str, &'a str)]) -> BoxFuture<'a, Result<Vec<ContainerSummary>, Error>> {
        self.list_containers(labels).boxed()
    }

    fn pid<'a>(&'a self, id: &'a ContainerId) -> BoxFuture<'a, Result<Option<u32>, Error>> {
        self.pid_of_container(id).boxed()
    }

    fn identity(&self) -> BoxFuture<'_, Option<String>> {
        async {
            let abilities = self.abilities().await.ok()?;
            // An address alone can be a tunnel to one engine today and to another tomorrow; an id alone can be shared by two on one machine.
            abilities.engine.as_ref().map(|id| format!("{} {id}", self.address))
        }
        .boxed()
    }

    fn mounts_host_directories(&self) -> bool {
        self.is_local()
    }
}

#[cfg(test)]
mod tests;
