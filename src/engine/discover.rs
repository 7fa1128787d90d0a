//! Finding the container engine: what was chosen explicitly, else the first socket that answers.

use std::env;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::Docker;
use crate::Error;
use crate::error::Kind;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A socket that accepts may be systemd's, which starts the engine on the first connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What the search reads of its surroundings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    docker_host: Option<String>,
    docker_tls_verify: bool,
    docker_context: Option<String>,
    docker_config: Option<PathBuf>,
    container_host: Option<String>,
    /// The well-known sockets, in the order in which they are tried.
    sockets: Vec<PathBuf>,
}

/// Where an engine should be, and who says so.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    address: String,
    said_by: String,
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let runtime = variable("XDG_RUNTIME_DIR")
            .map_or_else(|| format!("/run/user/{}", rustix::process::getuid().as_raw()).into(), PathBuf::from);
        Self {
            docker_host: variable("DOCKER_HOST"),
            docker_tls_verify: variable("DOCKER_TLS_VERIFY").is_some(),
            docker_context: variable("DOCKER_CONTEXT"),
            docker_config: variable("DOCKER_CONFIG")
                .map(PathBuf::from)
                .or_else(|| env::home_dir().map(|home| home.join(".docker"))),
            container_host: variable("CONTAINER_HOST"),
            sockets: vec![
                "/var/run/docker.sock".into(),
                runtime.join("docker.sock"),
                runtime.join("podman/podman.sock"),
                "/run/podman/podman.sock".into(),
            ],
        }
    }

    /// Connects to the engine that was chosen, or to the first that answers.
    pub(crate) async fn connect(&self) -> Result<Docker, Error> {
        if let Some(choice) = self.choice()? {
            return choice.connect().await;
        }
        let mut tried = String::new();
        let mut hint = "install one: on Debian, `apt-get install docker.io`";
        for socket in &self.sockets {
            let error = match probe(&format!("unix://{}", socket.display())).await {
                Ok(docker) => return Ok(docker),
                Err(error) => error,
            };
            let reason = match error.kind() {
                io::ErrorKind::NotFound => "not there".to_owned(),
                io::ErrorKind::PermissionDenied => {
                    hint = "one is there, but closed to you: `sudo usermod -aG docker $USER`, then log in again";
                    "permission denied".to_owned()
                }
                io::ErrorKind::ConnectionRefused => {
                    hint = "one is installed, but does not run: `sudo systemctl start docker`";
                    "refused: nobody listens".to_owned()
                }
                _ => error.to_string(),
            };
            let _ = write!(tried, "\n  {}: {reason}", socket.display());
        }
        Err(Error::new(Kind::EngineUnreachable, format!("no container engine answers; tried{tried}")).with_hint(hint))
    }

    /// The explicit choice, if there is one. It holds even when it does not answer.
    fn choice(&self) -> Result<Option<Choice>, Error> {
        let variable = |name: &str, value: &Option<String>| {
            value.clone().map(|address| Choice { said_by: format!("{name}={address}"), address })
        };
        if let Some(choice) = variable("DOCKER_HOST", &self.docker_host) {
            if self.docker_tls_verify {
                return Err(choice.needs_tls());
            }
            return Ok(Some(choice));
        }
        if let Some(context) = &self.docker_context {
            return self.context(context, &format!("DOCKER_CONTEXT={context}"));
        }
        if let Some(choice) = variable("CONTAINER_HOST", &self.container_host) {
            return Ok(Some(choice));
        }
        match self.current_context() {
            Some(context) => self.context(&context, &format!("the current Docker context {context}")),
            None => Ok(None),
        }
    }

    fn current_context(&self) -> Option<String> {
        let config = read_json(&self.docker_config.as_ref()?.join("config.json")).ok()?;
        Some(config.get("currentContext")?.as_str()?.to_owned()).filter(|context| !context.is_empty())
    }

    /// The address that a Docker context names; none for `default`, which stands for the sockets.
    fn context(&self, name: &str, said_by: &str) -> Result<Option<Choice>, Error> {
        if name == "default" {
            return Ok(None);
        }
        let unreadable = || {
            Error::new(Kind::EngineUnreachable, format!("cannot read the address that {said_by} stands for"))
                .with_hint("`docker context ls` lists the contexts; `docker context use default` chooses none")
        };
        let contexts = self.docker_config.as_ref().ok_or_else(unreadable)?.join("contexts");
        let digest = Sha256::digest(name).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let meta = read_json(&contexts.join("meta").join(&digest).join("meta.json"))
            .map_err(|error| unreadable().with_source(error))?;
        let address = meta.pointer("/Endpoints/docker/Host").and_then(Value::as_str).ok_or_else(unreadable)?;
        let choice = Choice { address: address.to_owned(), said_by: format!("{said_by}, {address}") };
        if contexts.join("tls").join(&digest).exists() {
            return Err(choice.needs_tls());
        }
        Ok(Some(choice))
    }
}

impl Choice {
    async fn connect(self) -> Result<Docker, Error> {
        if !["unix://", "tcp://", "http://"].iter().any(|scheme| self.address.starts_with(scheme)) {
            return Err(self.unsupported("only unix:// and, in plain HTTP, tcp:// can be reached"));
        }
        probe(&self.address).await.map_err(|error| {
            let hint = if error.kind() == io::ErrorKind::PermissionDenied {
                "its socket is closed to you: is your user in its group (often `docker`)?"
            } else {
                "start that engine, or remove the setting to have the usual sockets tried"
            };
            let text = format!("the container engine does not answer ({})", self.said_by);
            Error::new(Kind::EngineUnreachable, text).with_source(error).with_hint(hint)
        })
    }

    fn needs_tls(self) -> Error {
        self.unsupported("TLS is not supported")
    }

    fn unsupported(self, why: &str) -> Error {
        let text = format!("cannot reach the container engine ({})", self.said_by);
        Error::new(Kind::EngineUnreachable, text).with_source(why).with_hint(
            "bring its socket here: `ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock HOST`, \
             then DOCKER_HOST=unix:///tmp/engine.sock",
        )
    }
}

/// Connects to an engine, or tells in plain words why not.
async fn probe(address: &str) -> io::Result<Docker> {
    let silent = |_| io::Error::new(io::ErrorKind::TimedOut, "no answer");
    if let Some(path) = address.strip_prefix("unix://") {
        timeout(CONNECT_TIMEOUT, UnixStream::connect(path)).await.map_err(silent)??;
    }
    let docker = timeout(ANSWER_TIMEOUT, Docker::connect_to(address)).await.map_err(silent)?;
    docker.map_err(|error| {
        let mut cause: &dyn std::error::Error = &error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let kind = cause.downcast_ref::<io::Error>().map_or(io::ErrorKind::Other, io::Error::kind);
        io::Error::new(kind, cause.to_string())
    })
}

fn read_json(path: &Path) -> io::Result<Value> {
    serde_json::from_str(&std::fs::read_to_string(path)?).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
