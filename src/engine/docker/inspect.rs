//! What the engine knows about one container, read leniently.
//!
//! The client's models are closed: a state that Podman has and Docker has not makes them refuse a whole answer. So answers go
//! through JSON once more, into types that ask for no more than is needed.

use std::collections::HashMap;

use bollard::errors::Error as ClientError;
use bollard::query_parameters::{EventsOptionsBuilder, InspectContainerOptions};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Docker;
use super::failure::{failed, is_status};
use crate::Error;
use crate::engine::ContainerId;
use crate::error::Kind;

/// How long the engine may take to tell what it remembers of a container that is gone.
const MEMORY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// The part of an inspected container that matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Inspected {
    #[serde(default)]
    pub(super) state: InspectedState,
    #[serde(default)]
    pub(super) host_config: InspectedLimits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct InspectedState {
    pub(super) status: Option<String>,
    pub(super) pid: Option<i64>,
    pub(super) exit_code: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct InspectedLimits {
    pub(super) memory: Option<i64>,
    pub(super) memory_swap: Option<i64>,
    pub(super) nano_cpus: Option<i64>,
    pub(super) cpu_quota: Option<i64>,
    pub(super) cpu_period: Option<i64>,
    pub(super) pids_limit: Option<i64>,
    pub(super) readonly_rootfs: Option<bool>,
    pub(super) runtime: Option<String>,
}

/// Reads an answer of the client as another type, also one that the client's own model refused.
pub(in crate::engine) fn reread<M: Serialize, T: DeserializeOwned>(
    answer: Result<M, ClientError>,
) -> Result<T, ClientError> {
    Ok(match answer {
        Ok(model) => serde_json::from_value(serde_json::to_value(model)?)?,
        Err(ClientError::JsonDataError { message, contents, column }) => serde_json::from_str(&contents)
            .map_err(|_| ClientError::JsonDataError { message, contents: String::new(), column })?,
        Err(error) => return Err(error),
    })
}

impl Docker {
    /// Inspects a container; none if it is gone.
    pub(super) async fn inspect(&self, id: &ContainerId) -> Result<Option<Inspected>, Error> {
        match reread(self.client.inspect_container(&id.0, None::<InspectContainerOptions>).await) {
            Ok(inspected) => Ok(Some(inspected)),
            Err(error) if is_status(&error, 404) => Ok(None),
            Err(error) => Err(failed(Kind::Engine, format!("cannot inspect container {id}"), error)),
        }
    }

    pub(super) async fn pid_of_container(&self, id: &ContainerId) -> Result<Option<u32>, Error> {
        let Some(inspected) = self.inspect(id).await? else {
            return Ok(None);
        };
        Ok(inspected.state.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0))
    }

    /// The exit code of a container that is removed already, as far as the engine's short memory of events reaches.
    pub(super) async fn remembered_exit_code(&self, id: &ContainerId) -> Option<i64> {
        let filters = HashMap::from([("container", vec![id.0.as_str()]), ("event", vec!["die", "died"])]);
        // Podman tells nothing at all when this is not in the future.
        let until = jiff::Timestamp::now().as_second() + i64::from(self.is_podman);
        let options = EventsOptionsBuilder::new().since("1").until(&until.to_string()).filters(&filters).build();
        let mut events = self.client.events(Some(options));
        let find = async {
            while let Some(Ok(event)) = events.next().await {
                let attributes = event.actor.and_then(|actor| actor.attributes).unwrap_or_default();
                let code = attributes.get("exitCode").or_else(|| attributes.get("containerExitCode"));
                if let Some(code) = code.and_then(|code| code.parse().ok()) {
                    return Some(code);
                }
            }
            None
        };
        tokio::time::timeout(MEMORY_TIMEOUT, find).await.ok().flatten()
    }
}
